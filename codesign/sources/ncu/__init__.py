"""NVIDIA Nsight Compute: its CSV pages, by kernel and as a characterization."""

from codesign.sources.ncu.characterize import characterize_ncu
from codesign.sources.ncu.read import read_ncu

__all__ = ["characterize_ncu", "read_ncu"]
