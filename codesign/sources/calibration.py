"""Kernel databases of one's own: calibrations that `codesign characterize --calibrate` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from codesign._common.errors import DataError, UsageError, one_of
from codesign.hardware import load_system
from codesign.workload.characterization import Characterization
from codesign.workload.schema import ops_frame

WORKLOAD = "calibration"
"""Workload of a characterization that is a kernel database."""


class _Tables(Protocol):
    def gpus(self) -> list[str]: ...

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame: ...


class CalibrationDB:
    """Measured ops by GPU, as `perfdb.PerfDB` gives them.

    Raises DataError for a file that is no calibration, or was measured on no known GPU.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._ops: dict[str, list[pd.DataFrame]] = {}
        for path in paths:
            char = Characterization.load(path)
            if char.header.workload != WORKLOAD:
                raise DataError(
                    f"{path}: workload {char.header.workload}, expected a calibration; make one "
                    "with codesign characterize --calibrate"
                )
            if char.header.system is None:
                raise DataError(
                    f"{path}: {(*char.header.notes, 'device unknown')[0]}: no GPU of the hardware "
                    "library; calibrate on one, or with --system FILE"
                )
            gpu = load_system(char.header.system).gpu.name
            self._ops.setdefault(gpu, []).append(char.ops)

    def gpus(self) -> list[str]:
        """Names of the GPUs that were calibrated."""
        return list(self._ops)

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:  # noqa: ARG002
        """Every row of a class on one GPU; PyTorch's kernels, whatever the ``framework``.

        Raises UsageError for a GPU that was not calibrated.
        """
        if gpu not in self._ops:
            raise UsageError(one_of("calibrated GPU", gpu, self.gpus()))
        parts = [ops[ops["op_class"] == op_class] for ops in self._ops[gpu]]
        found = pd.concat(parts, ignore_index=True)
        return found if len(found) else ops_frame([])


class JoinedDB:
    """Several kernel databases as one; of a GPU that is in many the last one's rows count."""

    def __init__(self, databases: Sequence[_Tables]) -> None:
        self._home = {gpu: db for db in databases for gpu in db.gpus()}

    def gpus(self) -> list[str]:
        """Names of all GPUs."""
        return list(self._home)

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        """Rows of the database that a GPU is taken from. Raises UsageError for an unknown one."""
        if gpu not in self._home:
            raise UsageError(one_of("GPU", gpu, self.gpus()))
        return self._home[gpu].training_ops(gpu, op_class, framework)
