"""An ops table made ready, so that its times on many systems cost arithmetic alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.sensitivity.hardware_arrays import Array, HardwareArrays, hardware_arrays
from codesign.sensitivity.parts import Part

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.sensitivity.draws import Draws
    from codesign.sensitivity.modelfile import Unit

Index = NDArray[np.intp]
WithBases = Callable[[Sequence["System"]], tuple[list["System"], Index]]


@dataclass(frozen=True)
class Prepared:
    """Rows by the unit that covers them; what they have in common is timed once."""

    held: Array
    """(ops,) own seconds per step, kept where no unit covers a row."""
    parts: tuple[tuple[Part, Index], ...]
    """Distinct rows of a part, and for each of its rows which of them it is."""
    with_bases: WithBases

    @property
    def covered(self) -> NDArray[np.bool_]:
        """(ops,) whether a fitted unit covers the row."""
        mask = np.zeros(len(self.held), dtype=np.bool_)
        for part, _ in self.parts:
            mask[part.rows] = True
        return mask

    def times(
        self, systems: Sequence[System], draws: Draws | None = None, span: slice | None = None
    ) -> Array:
        """Seconds per step: (systems, ops), or (draws, systems, ops) of the draws in ``span``."""
        everything, base = self.with_bases(systems)
        hw = hardware_arrays(everything)
        shape = (len(systems), len(self.held))
        if draws is None:
            out = np.broadcast_to(self.held, shape).copy()
            for part, inverse in self.parts:
                seen, which = _alike(part, hw)
                values = part.times(part.unit.z_array(), seen, part.shifts(seen))
                out[:, part.rows] = part.count * _spread(values, which[: len(systems)], inverse)
            return out
        chosen = range(draws.n)[span or slice(None)]
        out = np.broadcast_to(self.held, (len(chosen), *shape)).copy()
        for part, inverse in self.parts:
            self._draw(part, inverse, hw, base, systems, draws, chosen, out)
        return out

    def _draw(
        self, part: Part, inverse: Index, hw: HardwareArrays, base: Index,
        systems: Sequence[System], draws: Draws, chosen: range, out: Array,
    ) -> None:  # fmt: skip
        seen, which = _alike(part, hw)
        # What differs are pairs of a system and its base.
        pairs, own = np.unique(
            np.stack([which[: len(systems)], which[base]]), axis=1, return_inverse=True
        )
        own = own.ravel()
        effects = unseen_effects(part.unit, draws, systems)
        shifts = {one: draws.effects(part.unit, one) for one in dict.fromkeys(seen.kins)}
        z, stretch = draws.z[part.unit.key], draws.gain[part.unit.key]
        for place, index in enumerate(chosen):
            moved = {one: rows[index] for one, rows in shifts.items()}
            values = part.times(z[index], seen.sustaining(float(draws.clock_share[index])), moved)
            start = values[pairs[1]]
            drawn = start * (values[pairs[0]] / start) ** stretch[index]
            full = part.count * _spread(drawn, own, inverse)
            out[place][:, part.rows] = full if effects is None else full * effects[index][:, None]


def prepared(held: Array, parts: Sequence[Part], with_bases: WithBases) -> Prepared:
    """``parts`` with rows of equal features merged. ``with_bases`` as in `SensitivityModel`."""
    return Prepared(held, tuple(_distinct(part) for part in parts), with_bases)


def _distinct(part: Part) -> tuple[Part, Index]:
    columns = [np.asarray(v, dtype=np.float64) for v in part.features.values()]
    if any(column.shape != part.rows.shape for column in columns):
        return part, np.arange(part.rows.size)
    first, inverse = _unique(np.stack(columns, axis=1))
    features = {name: values[first] for name, values in part.features.items()}
    return replace(part, features=features), inverse


def _alike(part: Part, hw: HardwareArrays) -> tuple[HardwareArrays, Index]:
    """Systems that differ in what the part's model reads, and which of them each one is."""
    kins = list(zip(hw.architectures, hw.hosts, strict=True))
    place = {one: float(i) for i, one in enumerate(dict.fromkeys(kins))}
    columns = [np.array([[place[one]] for one in kins])]
    # Of the peaks, those that its rows multiply at: an FP4 lever leaves BF16 as it is.
    rates = [v for name, v in part.features.items() if name.endswith("precision")]
    for name in sorted(part.model.reads - {"architectures"}):
        values = np.asarray(getattr(hw, name), dtype=np.float64)
        if values.shape[1] > 1 and rates:
            values = values[:, np.unique(np.concatenate(rates)).astype(np.intp)]
        columns.append(values)
    first, inverse = _unique(np.concatenate(columns, axis=1))
    return hw.rows([int(i) for i in first]), inverse


def _unique(rows: Array) -> tuple[Index, Index]:
    """(first row of each kind, kind of each row), told apart bit by bit."""
    raw = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    _, first, inverse = np.unique(raw.ravel(), return_index=True, return_inverse=True)
    return first, inverse.ravel()


def _spread(values: Array, systems: Index, ops: Index) -> Array:
    return np.asarray(values[systems[:, None], ops[None, :]])


def unseen_effects(unit: Unit, draws: Draws, systems: Sequence[System]) -> Array | None:
    """(draws, systems) factors of GPUs that the unit has not seen; None where it has seen all."""
    if all(s.gpu.name in unit.gpus for s in systems):
        return None
    by_gpu = {
        s.gpu.name: np.ones(draws.n) if s.gpu.name in unit.gpus
        else np.exp(draws.gpu_effect(unit, s.gpu.name, s.gpu.architecture))
        for s in systems
    }  # fmt: skip
    return np.stack([by_gpu[s.gpu.name] for s in systems], axis=1)
