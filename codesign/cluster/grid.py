"""Ops of many plans at once: shapes as arrays, equal ones timed once on all systems.

A kind of op (a layer's QKV GEMM, its dispatch) has integer dims, one value per plan.
Plans share most shapes, so that the distinct ones of a whole search are a few hundred rows
of an ops table, timed by one call of the fitted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from codesign.hardware.model import System

Array = NDArray[np.float64]


class OpTimes(Protocol):
    """What this layer needs of a model; `sensitivity.SensitivityModel` has it."""

    def times(self, ops: pd.DataFrame, systems: Sequence[System], draws: Any = None) -> Array:
        """(systems, ops) or (draws, systems, ops) seconds per step."""


@dataclass(frozen=True)
class Kind:
    """One kind of op over all plans. ``dims`` are columns of the ops table, (plans,) each."""

    block: str
    """What it is part of: ``dense``, ``moe`` (layers), ``embed``, ``head``, ``mtp``, ``step``."""
    part: str
    """What the step model knows it as: ``gemm.f``, ``attention.b``, ``tp.f``, ``optimizer``."""
    op_class: str
    dims: dict[str, Array]
    calls: Array
    """(plans,) per micro-batch and layer, or per step; 0 where the plan has none."""
    fixed: dict[str, object] = field(default_factory=dict)
    """Columns that all plans share: precision, phase, collective."""
    sent_bytes: Array | None = None
    """(plans,) bytes that a rank puts on its links in one call of a collective."""


@dataclass(frozen=True)
class Timed:
    """Seconds of each kind: ``seconds[i]`` is (systems, plans) for ``kinds[i]``, one call."""

    kinds: tuple[Kind, ...]
    seconds: list[Array]
    rows: list[dict[str, object]] = field(default_factory=list)
    """The distinct ops, as rows of an ops table."""
    places: list[NDArray[np.intp]] = field(default_factory=list)
    """For each kind the row of every plan."""

    def total(self, block: str, part: str) -> Array | float:
        """Seconds of all calls of a part of a block; 0.0 where no kind is part of it."""
        return self._totals.get((block, part), 0.0)

    def sent(self, block: str, part: str) -> Array | float:
        """(plans,) bytes that a rank sends in all calls of a part of a block."""
        mine = [k.calls * k.sent_bytes for k in self.kinds
                if (k.block, k.part) == (block, part) and k.sent_bytes is not None]  # fmt: skip
        return sum(mine[1:], mine[0]) if mine else 0.0

    @cached_property
    def _totals(self) -> dict[tuple[str, str], Array]:
        sums: dict[tuple[str, str], Array] = {}
        for kind, seconds in zip(self.kinds, self.seconds, strict=True):
            key, spent = (kind.block, kind.part), kind.calls * seconds
            sums[key] = sums[key] + spent if key in sums else spent
        return sums


def time_kinds(
    kinds: Sequence[Kind],
    model: OpTimes,
    systems: Sequence[System],
    memory: TimeCache | None = None,
) -> Timed:
    """Seconds of one call of every kind on every system, by one call of the model."""
    tables, places = _distinct(kinds)
    unit = (memory or TimeCache(model, tuple(systems))).seconds(tables)
    return Timed(tuple(kinds), [unit[:, place] for place in places], tables, places)


class TimeCache:
    """Times of distinct ops on fixed systems, kept from one search to the next."""

    def __init__(self, model: OpTimes, systems: tuple[System, ...]) -> None:
        self._model, self._systems = model, [without_power(s) for s in systems]
        self._known: dict[tuple[object, ...], int] = {}
        self._seconds = np.zeros((len(systems), 0))

    def seconds(self, rows: list[dict[str, object]]) -> Array:
        """(systems, rows) seconds of one call of each row."""
        keys = [tuple(row.items()) for row in rows]
        new = {k: row for k, row in zip(keys, rows, strict=True) if k not in self._known}
        if new:
            timed = self._time(list(new.values()))
            for offset, key in enumerate(new):
                self._known[key] = self._seconds.shape[1] + offset
            self._seconds = np.concatenate([self._seconds, timed], axis=1)
        return self._seconds[:, [self._known[k] for k in keys]]

    def _time(self, rows: list[dict[str, object]]) -> Array:
        import pandas as pd

        return self._model.times(pd.DataFrame(rows), self._systems)


def without_power(system: System) -> System:
    """``system`` with its power lever set aside: the step model applies it, to whole steps."""
    return replace(system, levers=tuple(step for step in system.levers if step[0] != "power"))


def _distinct(kinds: Sequence[Kind]) -> tuple[list[dict[str, object]], list[NDArray[np.intp]]]:
    """Distinct rows over all kinds, and for each kind the row of every plan."""
    rows: list[dict[str, object]] = []
    index: dict[tuple[object, ...], int] = {}
    places = []
    for kind in kinds:
        names = sorted(kind.dims)
        stacked = np.column_stack([np.broadcast_to(kind.dims[n], kind.calls.shape) for n in names])
        # Plans without the op point at the first shape: their calls are 0.
        used = kind.calls > 0
        if not used.any():
            stacked = stacked[:1].repeat(len(stacked), axis=0)
        else:
            stacked = np.where(used[:, None], stacked, stacked[used.argmax()])
        values, inverse = np.unique(stacked, axis=0, return_inverse=True)
        fixed = {"op_class": kind.op_class, "count": 1.0, **kind.fixed}
        mine = np.empty(len(values), dtype=np.intp)
        for i, row in enumerate(values):
            content = {**fixed, **dict(zip(names, row.tolist(), strict=True))}
            key = tuple(content.items())
            if key not in index:
                index[key] = len(rows)
                rows.append(content)
            mine[i] = index[key]
        places.append(mine[inverse.ravel()])
    return rows, places
