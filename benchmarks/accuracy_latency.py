"""What knowing a part's launch latency is worth: whole GEMM tables, nothing else measured."""

from __future__ import annotations

import numpy as np
from accuracy_tables import TITLES

from codesign.hardware import system_of_gpu
from codesign.sensitivity import SensitivityModel
from codesign.sensitivity.backtest_rows import RowCache
from codesign.sensitivity.blind import unmeasured
from codesign.sensitivity.training import measured_rows
from codesign.sources.perfdb import PerfDB

TEXT = """### With the launch latency given

Half of the rows of a GEMM table are of a few microseconds, and what a part needs to launch a kernel
is on no data sheet: the tables above take it from older families. A team that projects its own part
knows it, and can say it (`launch_latency`). Below, every row of the tables, blind as above and with
the launch latency of the hardware library, which is the time of the part's smallest bf16 GEMM:
median APE / MAPE (median bias), mean over frameworks. In narrow precisions it does not help: on
Blackwell the cast before the multiply costs more than on Hopper, though a launch costs less."""
TARGETS = ("h200-sxm", "b200-sxm", "gb200", "b300-sxm", "gb300")


def lines(models: dict[str, SensitivityModel]) -> list[str]:
    """A table of precision x (blind, given) x target."""
    scores: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    for framework, model in models.items():
        db = RowCache(PerfDB())
        for target in TARGETS:
            ops = measured_rows(db, target, "gemm", framework)
            ops = ops[model.covered(ops)].reset_index(drop=True)
            known = system_of_gpu(target)
            blind = unmeasured(known, model.trained_on)
            error = model.times(ops, [blind, known]) / ops["time_s"].to_numpy(float) - 1
            for precision, rows in ops.groupby("precision").indices.items():
                for how, one in zip(("blind", "given"), error[:, rows], strict=True):
                    size = np.abs(one)
                    score = (float(np.median(size)), float(size.mean()), float(np.median(one)))
                    scores.setdefault((str(precision), how, target), []).append(score)
    head = ["| precision | launch latency | " + " | ".join(TARGETS) + " |",
            "|---|---|" + "---|" * len(TARGETS)]  # fmt: skip
    for precision in ("bf16", "fp8", "fp8_block", "nvfp4"):
        for how in ("blind", "given"):
            cells = [_cell(scores.get((precision, how, target))) for target in TARGETS]
            head.append(f"| {precision} | {how} | " + " | ".join(cells) + " |")
    return head


def _cell(found: list[tuple[float, float, float]] | None) -> str:
    if not found:
        return "-"
    median, mean, bias = 100 * np.mean(found, axis=0)
    return f"{median:.1f}/{mean:.1f} ({bias:+.0f})"


if __name__ == "__main__":
    from accuracy import gemm_models

    print("\n".join(lines(gemm_models(list(TITLES)))))
