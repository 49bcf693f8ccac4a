"""PyTorch execution traces and Chakra: shapes for the ops of a Kineto trace."""

from codesign.sources.execution_trace._join import add_shapes
from codesign.sources.execution_trace.read import (
    ExecutionTrace,
    pair,
    read_execution_trace,
)

__all__ = ["ExecutionTrace", "add_shapes", "pair", "read_execution_trace"]
