"""Op-level backtest: a fit that has not seen a GPU, scored on what that GPU measured.

Leakage is impossible by construction: every split fits its own model on its training
GPUs alone, a target among them is refused, and `SensitivityModel.predict` refuses again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign._common.errors import UsageError, one_of
from codesign._common.scores import BacktestRow
from codesign.hardware import system_of_gpu
from codesign.hardware.model import System
from codesign.sensitivity.backtest_baselines import (
    FittedRoofline,
    datasheet_roofline,
    fit_roofline,
    scaled_source_time,
)
from codesign.sensitivity.backtest_rows import (
    SCORED_CLASSES,
    RowCache,
    cells,
    fastest_by_op,
    sample,
    source_times,
)
from codesign.sensitivity.blind import unmeasured
from codesign.sensitivity.errors import LeakageError
from codesign.sensitivity.fit import fit
from codesign.sensitivity.model import SensitivityModel
from codesign.sensitivity.op_model import numbers
from codesign.sensitivity.training import TrainingSource, measured_rows

_OLD = ("a100-80gb-sxm", "h100-sxm", "l40s")
_BLACKWELL = ("b200-sxm", "b300-sxm", "gb200", "gb300")
MIN_SCORED = 20
"""Rows of a group below which no score is given."""
BASELINE_ROWS = 1000
"""Training rows of a GPU and group behind the four-parameter roofline."""
QUICK_ROWS = 400
FULL_ROWS = 4000
_SEED = 0


@dataclass(frozen=True)
class Split:
    """Training GPUs and the GPUs to score."""

    train: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Protocol:
    """Splits that answer one question, and the question."""

    name: str
    text: str
    splits: tuple[Split, ...]


def protocols(gpus: Sequence[str]) -> dict[str, Protocol]:
    """The protocols over the GPUs that have tables, by name."""

    def only(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(n for n in names if n in gpus)

    ordered = [
        Split(("a100-80gb-sxm", "l40s"), ("h100-sxm",)),
        Split(_OLD, ("h200-sxm", *_BLACKWELL)),
        Split((*_OLD, "h200-sxm"), _BLACKWELL),
    ]
    known = [
        Protocol("time-ordered", "fitted on older GPUs only, scored on newer ones", tuple(ordered)),
        Protocol("leave-one-gpu-out", "fitted on all other GPUs, scored on the one left out",
                 tuple(Split(tuple(g for g in gpus if g != t), (t,)) for t in gpus)),
        Protocol("quick", "fitted on A100, H100 and L40S, scored on H200 and B200",
                 (Split(_OLD, ("h200-sxm", "b200-sxm")),)),
    ]  # fmt: skip
    usable = {}
    for protocol in known:
        splits = [Split(only(s.train), only(s.targets)) for s in protocol.splits]
        kept = tuple(s for s in splits if s.train and s.targets)
        usable[protocol.name] = Protocol(protocol.name, protocol.text, kept)
    return usable


def fitted_splits(
    db: TrainingSource,
    protocol: str,
    framework: str = "trtllm",
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Split, SensitivityModel]]:
    """Every split of a protocol with the model fitted on its training GPUs alone.

    Raises UsageError for an unknown protocol.
    """
    known = protocols(db.gpus())
    if protocol not in known:
        raise UsageError(one_of("backtest protocol", protocol, [*known]))
    for split in known[protocol].splits:
        note(f"fit on {', '.join(split.train)}")
        yield split, fit(db, gpus=split.train, framework=framework)


def op_backtest(
    db: TrainingSource,
    protocol: str = "time-ordered",
    *,
    framework: str = "trtllm",
    rows: int | None = FULL_ROWS,
    classes: Sequence[str] = SCORED_CLASSES,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[BacktestRow, ...]:
    """Scores of every op class x precision x target x tier of a protocol.

    ``rows`` is how many rows of a group and target are scored, drawn evenly; None scores
    whole tables. Raises UsageError for an unknown protocol.
    """
    cached = RowCache(db)
    return tuple(
        row
        for split, model in fitted_splits(cached, protocol, framework, note)
        for row in score_split(cached, model, split, framework, rows, classes, note)
    )


def score_split(
    db: TrainingSource,
    model: SensitivityModel,
    split: Split,
    framework: str,
    rows: int | None,
    classes: Sequence[str] = SCORED_CLASSES,
    note: Callable[[str], None] = lambda _: None,
) -> list[BacktestRow]:
    """Scores of one fitted model on the targets of ``split``.

    Raises LeakageError if the model has seen a target.
    """
    seen = sorted(set(split.targets) & (set(model.trained_on) | set(split.train)))
    if seen:
        raise LeakageError(f"backtest: the model was fitted on its own target {seen[0]}")
    found: list[BacktestRow] = []
    for op_class in classes:
        training = {g: measured_rows(db, g, op_class, framework) for g in split.train}
        baselines = _baselines(training)
        fastest: dict[str, pd.Series] = {}
        for target in split.targets:
            note(f"score {op_class} on {target}")
            ops = measured_rows(db, target, op_class, framework)
            if not len(ops):
                continue
            sources = sources_for(target, split)
            for gpu in sources:
                if gpu not in fastest:
                    fastest[gpu] = _source_rows(db, training, gpu, op_class, framework)
            asked = {g: fastest[g] for g in sources}
            found += _score_class(model, ops, target, asked, baselines, rows)
    return found


def sources_for(target: str, split: Split) -> tuple[str, ...]:
    """GPUs whose measurements carry over to ``target``: H100, and B200 inside its family.

    A source need not be in the training set: a team that measured it has its times,
    whatever the model was fitted on.
    """
    near = {"b300-sxm": ("b200-sxm",), "gb200": ("b200-sxm",), "h100-sxm": ("a100-80gb-sxm",)}
    wanted = ("h100-sxm", *near.get(target, ()))
    if target == "h100-sxm" and "h200-sxm" in split.train:
        wanted = ("h200-sxm", *wanted)
    return tuple(g for g in wanted if g != target)


def _source_rows(
    db: TrainingSource, training: dict[str, pd.DataFrame], gpu: str, op_class: str, framework: str
) -> pd.Series:
    known = training.get(gpu)
    rows = known if known is not None else measured_rows(db, gpu, op_class, framework)
    return fastest_by_op(rows)


def _baselines(training: dict[str, pd.DataFrame]) -> dict[tuple[str, str], FittedRoofline]:
    """The four-parameter roofline of every group and precision, on the training rows."""
    parts: dict[tuple[str, str], list[tuple[pd.DataFrame, System]]] = {}
    for gpu, ops in training.items():
        if not len(ops):
            continue
        for group, precision, index in cells(ops):
            some = ops.iloc[sample(index, BASELINE_ROWS, _SEED)]
            parts.setdefault((group, precision), []).append((some, system_of_gpu(gpu)))
    return {key: fit_roofline(rows) for key, rows in parts.items()}


def _baseline_of(
    baselines: dict[tuple[str, str], FittedRoofline], group: str, precision: str
) -> FittedRoofline | None:
    """That of the precision, else of the nearest measured one: its peak still enters."""
    for candidate in (precision, "fp8", "bf16"):
        if (group, candidate) in baselines:
            return baselines[group, candidate]
    return None


def _score_class(
    model: SensitivityModel,
    ops: pd.DataFrame,
    target: str,
    sources: dict[str, pd.Series],
    baselines: dict[tuple[str, str], FittedRoofline],
    rows: int | None,
) -> list[BacktestRow]:
    system = unmeasured(system_of_gpu(target), model.trained_on)
    found: list[BacktestRow] = []
    for group, precision, index in cells(ops):
        chosen = ops.iloc[sample(index, rows, _SEED)]
        chosen = chosen[model.covered(chosen)].reset_index(drop=True)
        four = _baseline_of(baselines, group, precision)
        cell = _Cell(group, precision, target, system, model, four)
        found += [row for row in [cell.spec_only(chosen)] if row]
        for source, measured in sources.items():
            row = cell.transfer(chosen, source, source_times(chosen, measured))
            found += [row] if row else []
    return found


@dataclass(frozen=True)
class _Cell:
    """One op class x precision x target, scored in both tiers on its own rows."""

    group: str
    precision: str
    target: str
    system: System
    model: SensitivityModel
    four: FittedRoofline | None

    def spec_only(self, ops: pd.DataFrame) -> BacktestRow | None:
        """Nothing measured on the target is used."""
        return self._row(ops, self.model.predict(_blind(ops), self.system), None, None)

    def transfer(
        self, ops: pd.DataFrame, source: str, time_s: NDArray[np.float64]
    ) -> BacktestRow | None:
        """The same ops as measured on ``source`` are used; others are left out."""
        known = np.isfinite(time_s)
        shared, times = ops[known].reset_index(drop=True), time_s[known]
        if not len(shared):
            return None
        origin = system_of_gpu(source)
        asked = _blind(shared)
        asked["time_s"] = times * numbers(shared, "count")
        target = unmeasured(self.system, self.model.trained_on, origin)
        predicted = self.model.predict(asked, target, source=origin)
        scaled = scaled_source_time(shared, times, origin, self.system)
        return self._row(shared, predicted, source, scaled)

    def _row(
        self,
        ops: pd.DataFrame,
        predicted: pd.DataFrame,
        source: str | None,
        scaled: NDArray[np.float64] | None,
    ) -> BacktestRow | None:
        if len(ops) < MIN_SCORED:
            return None
        measured = numbers(ops, "time_s")
        per_call = measured / numbers(ops, "count")
        error = numbers(predicted, "time_s") / measured - 1.0
        inside = (numbers(predicted, "time_lo_s") <= measured) & (
            measured <= numbers(predicted, "time_hi_s")
        )
        roofline = np.abs(datasheet_roofline(ops, self.system) / per_call - 1.0)
        four = None
        if self.four is not None:
            four = np.abs(self.four.times(ops, self.system) / per_call - 1.0)
        ratio = None if scaled is None else np.abs(scaled / per_call - 1.0)
        return BacktestRow(
            op_class=self.group, precision=self.precision, target=self.target,
            tier="spec-only" if source is None else "transfer", source=source,
            trained_on=self.model.trained_on, n=len(ops),
            median_ape=float(np.median(np.abs(error))), mape=float(np.mean(np.abs(error))),
            p90_ape=float(np.quantile(np.abs(error), 0.9)), bias=float(np.median(error)),
            coverage_90=float(np.mean(inside)), roofline_median_ape=float(np.median(roofline)),
            ratio_median_ape=None if ratio is None else float(np.median(ratio)),
            fitted_roofline_median_ape=None if four is None else float(np.median(four)),
            fitted_roofline_mape=None if four is None else float(np.mean(four)),
        )  # fmt: skip


def _blind(ops: pd.DataFrame) -> pd.DataFrame:
    """The ops without anything that the target measured."""
    blind = ops.copy()
    for column in ("time_s", "time_sd_s", "exposed_s", "wait_s"):
        if column in blind:
            blind[column] = pd.Series(pd.NA, index=blind.index, dtype="Float64")
    return blind
