"""NVIDIA Nsight Systems: the SQLite export, and the CSV of ``nsys stats``."""

from codesign.sources.nsys.read import read_nsys
from codesign.sources.nsys.stats import read_nsys_stats

__all__ = ["read_nsys", "read_nsys_stats"]
