"""Built-in workloads: real PyTorch programs, on a GPU or small enough for a CPU."""

from codesign.capture.workloads.catalog import WORKLOADS, Workload, command_of, sizes_of

__all__ = ["WORKLOADS", "Workload", "command_of", "sizes_of"]
