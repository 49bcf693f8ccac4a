"""PyTorch profiler (Kineto) traces to a characterization."""

from codesign.sources.kineto.read import read_kineto

__all__ = ["read_kineto"]
