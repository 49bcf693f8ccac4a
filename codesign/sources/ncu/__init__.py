"""NVIDIA Nsight Compute: its pages by kernel, as a characterization, as evidence for one."""

from codesign.sources.ncu.characterize import characterize_ncu
from codesign.sources.ncu.join import join_ncu
from codesign.sources.ncu.read import read_ncu

__all__ = ["characterize_ncu", "join_ncu", "read_ncu"]
