"""The fitted model: times, intervals, draws, binding resources, identifiability."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign._common.errors import CodesignError, DataError
from codesign._common.scores import Z_90
from codesign.hardware import load_system, system_of_gpu
from codesign.hardware.model import System
from codesign.sensitivity.draws import Draws, draw
from codesign.sensitivity.errors import LeakageError
from codesign.sensitivity.hardware_arrays import Array, hardware_arrays, scales_blocks
from codesign.sensitivity.kernels import VENDOR, split_kernel
from codesign.sensitivity.modelfile import Identification, ModelFile, Unit, read_model, write_model
from codesign.sensitivity.op_model import OpModel, numbers, strings
from codesign.sensitivity.parts import Part, predict_part
from codesign.sensitivity.prepared import Prepared, prepared
from codesign.sensitivity.registry import MODELS

PREDICT_DRAWS = 24
"""Draws behind the parameter part of an interval of `SensitivityModel.predict`."""
HELD = "held"
_NOT_RESOURCES = frozenset({"time", "host"})


class SensitivityModel:
    """Op time as a function of the hardware. Made by `fit` or `load_model`."""

    def __init__(self, content: ModelFile, models: Sequence[OpModel] = MODELS) -> None:
        self.content = content
        self._models = tuple(models)
        self._units = {unit.key: unit for unit in content.units}

    def __repr__(self) -> str:
        classes = sorted({unit.model for unit in self.content.units})
        return (
            f"<SensitivityModel of {', '.join(classes) or 'nothing'}; trained on "
            f"{', '.join(self.trained_on) or 'nothing'}>"
        )

    @property
    def trained_on(self) -> tuple[str, ...]:
        """GPU names whose measurements the model has seen."""
        return self.content.trained_on

    @property
    def framework(self) -> str:
        """Whose kernels the model was fitted on."""
        return self.content.framework

    def save(self, path: Path | str) -> None:
        """Write the model as JSON."""
        write_model(self.content, Path(path))

    def identifiability(self) -> dict[str, dict[str, Identification]]:
        """{lever: {op class: identification}}, from the training data."""
        return self.content.identifiability

    def draws(self, n: int, seed: int | None = None) -> Draws:
        """``n`` joint draws of parameters and effects; ``seed`` defaults to the fit's."""
        return draw(self.content.units, n, self.content.seed if seed is None else seed)

    def covered(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """(ops,) whether a fitted unit covers the row; the others are held constant."""
        mask = np.zeros(len(ops), dtype=np.bool_)
        for part in self._parts(ops):
            mask[part.rows] = True
        return mask

    def times(
        self, ops: pd.DataFrame, systems: Sequence[System], draws: Draws | None = None
    ) -> Array:
        """Seconds per step, count included: (systems, ops), or (draws, systems, ops).

        Rows that no unit covers keep their own ``time_s`` on every system. In a draw, a
        system made by levers moves from its base by the modelled log gain x a positive
        factor: a lever of x1.0 gains exactly 1, and gains stay monotone in every draw.
        """
        return self.prepare(ops).times(systems, draws)

    def prepare(self, ops: pd.DataFrame) -> Prepared:
        """``ops`` made ready: the same times, again and again, without reading the table anew."""
        return prepared(numbers(ops, "time_s"), list(self._parts(ops)), _with_bases)

    def predict(
        self, ops: pd.DataFrame, system: System, source: System | None = None,
        in_sample: bool = False,
    ) -> pd.DataFrame:  # fmt: skip
        """Predicted time of every row on ``system``, with a 90 % interval of a single op.

        With ``source`` the rows' ``time_s`` were measured there and carry over
        (*transfer*); else only specifications are used (*spec-only*). Returns columns
        ``time_s, time_lo_s, time_hi_s`` (per step), ``binding, tier, evidence``. Raises
        LeakageError if the model has seen the GPU, unless ``in_sample``.

        ``shared_sd``, ``region_sd`` and ``own_sd`` (log scale) split the interval: what the ops
        of a class have in common on a GPU, what neighbouring shapes have, what is an op's own.
        Kernels of a family that no training GPU ran are ``assumed`` to be like the nearest, and
        so are rates that another precision lends (`OpModel.lender`).
        """
        if system.gpu.name in self.trained_on and not in_sample:
            raise LeakageError(
                f"the model was fitted on {system.gpu.name}: a prediction for it is no test; "
                "fit with it excluded, or say in_sample=True"
            )
        held = numbers(ops, "time_s")
        out = pd.DataFrame({"binding": self.binding(ops, system)}, index=ops.index)
        values = np.column_stack([held, held, held])
        split = np.zeros((len(ops), 3))
        tier = np.full(len(ops), HELD, dtype="<U9")
        evidence = np.full(len(ops), "assumed", dtype="<U8")
        draws = self.draws(PREDICT_DRAWS)
        for part in self._parts(ops):
            found = predict_part(part, system, source, held, draws)
            half = Z_90 * found.sd
            band = np.column_stack([found.log_time, found.log_time - half, found.log_time + half])
            values[part.rows] = np.exp(band)
            split[part.rows] = np.column_stack([found.shared_sd, found.region_sd, found.own_sd])
            tier[part.rows] = np.where(found.transferred, "transfer", "spec-only")
            lent = part.lent and scales_blocks(system.gpu.architecture)
            evidence[part.rows] = "assumed" if part.strange or lent else "modelled"
        for index, name in enumerate(("time_s", "time_lo_s", "time_hi_s")):
            out.insert(index, name, values[:, index])
        return out.assign(
            tier=tier, evidence=evidence,
            shared_sd=split[:, 0], region_sd=split[:, 1], own_sd=split[:, 2],
        )  # fmt: skip

    def binding(self, ops: pd.DataFrame, system: System) -> NDArray[np.str_]:
        """(ops,) resource that takes most of each op's time; ``held`` where not modelled."""
        hw = hardware_arrays([system])
        out = np.full(len(ops), HELD, dtype="<U16")
        for part in self._parts(ops):
            theta = part.theta(part.unit.z_array(), part.shifts(hw)[hw.kins[0]])
            terms = part.model.terms(theta, part.features, hw)
            names = np.array([name for name in terms if name not in _NOT_RESOURCES])
            stacked = np.stack([np.broadcast_to(terms[n], (1, part.rows.size))[0] for n in names])
            out[part.rows] = names[stacked.argmax(axis=0)]
        return out

    def _parts(self, ops: pd.DataFrame) -> Iterator[Part]:
        taken = np.zeros(len(ops), dtype=np.bool_)
        for model in self._models:
            mask = model.applies(ops) & ~taken if len(ops) else taken
            if not mask.any():
                continue
            variants = self._variants(model, ops)
            for variant in np.unique(variants[mask]):
                unit = self._unit_for(model, str(variant))
                if unit is None:
                    continue
                rows = np.flatnonzero(mask & (variants == variant))
                taken[rows] = True
                part = ops.iloc[rows]
                features = model.features(part)
                here, there = split_kernel(str(variant)), split_kernel(unit.variant)
                strange = here[1] not in (VENDOR, there[1]) or not _on_hbm(unit.gpus)
                yield Part(rows, model, unit, features, numbers(part, "count"),
                           stand_in=here[0] != there[0], strange=strange,
                           lent=self._lent(model, unit))  # fmt: skip

    def _lent(self, model: OpModel, unit: Unit) -> tuple[float, ...]:
        """What another variant lends to ``unit``, if no GPU that it saw scales blocks itself."""
        lender = model.lender(unit.variant)
        found = self._units.get((model.name, lender)) if lender else None
        if found is None or any(scales_blocks(a) for a in _architectures(unit.gpus)):
            return ()
        return found.values

    def _variants(self, model: OpModel, ops: pd.DataFrame) -> NDArray[np.str_]:
        """(ops,) variants; a row that does not name its kernel ran the framework's usual one."""
        variants = model.variant(ops).astype(np.dtype("<U48"))
        unnamed = strings(ops, "kernel") == ""
        for variant in np.unique(variants[unnamed]):
            usual = self._usual(model, str(variant))
            variants[unnamed & (variants == variant)] = usual
        return variants

    def _usual(self, model: OpModel, variant: str) -> str:
        own = [u for u in self._units.values() if u.model == model.name
               and u.framework == self.content.framework
               and split_kernel(u.variant)[0] == variant]  # fmt: skip
        if not own:
            return variant
        return max(own, key=lambda u: (u.variant == variant, u.rows_seen)).variant

    def _unit_for(self, model: OpModel, variant: str) -> Unit | None:
        """The unit of ``variant``, else the first that stands in for it."""
        for candidate in (variant, *model.fallbacks(variant)):
            unit = self._units.get((model.name, candidate))
            if unit is not None:
                return unit
        return None


@lru_cache(maxsize=256)
def _architectures(gpus: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the GPUs that the hardware library has."""
    found = []
    for gpu in gpus:
        with contextlib.suppress(CodesignError):
            found.append(system_of_gpu(gpu).gpu.architecture)
    return tuple(found)


@lru_cache(maxsize=256)
def _on_hbm(gpus: tuple[str, ...]) -> bool:
    """Whether a part with HBM is among ``gpus``: those with GDDR say little of the others."""
    try:
        return any(system_of_gpu(gpu).gpu.hbm_stacks for gpu in gpus)
    except CodesignError:
        return True


def _with_bases(systems: Sequence[System]) -> tuple[list[System], NDArray[np.intp]]:
    """The systems with the bases that they lack, and the index of each one's base."""
    everything = list(systems)
    index = {s.name: i for i, s in enumerate(systems) if not s.levers}
    base = np.arange(len(systems))
    for position, system in enumerate(systems):
        if not system.levers or not system.base:
            continue
        if system.base not in index:
            shipped = _shipped(system.base)
            if shipped is None:
                continue
            index[system.base] = len(everything)
            everything.append(shipped)
        base[position] = index[system.base]
    return everything, base


@lru_cache(maxsize=64)
def _shipped(name: str) -> System | None:
    """A system of the library; None for one that came from a file of the user's."""
    try:
        return load_system(name)
    except CodesignError:
        return None


def load_model(path: Path | str, models: Sequence[OpModel] = MODELS) -> SensitivityModel:
    """Read a model that `SensitivityModel.save` wrote.

    Raises DataError if it is not one, if it holds no fitted unit, or if a codesign with
    other op models wrote it: its parameters would be read as something else.
    """
    content = read_model(Path(path))
    for key in ("units", "trained_on"):
        if not getattr(content, key):
            raise DataError(
                f"{path}: {key}: empty, so it tells the time of no op; fit it anew: codesign fit"
            )
    known = {model.name: model for model in models}
    for unit in content.units:
        model = known.get(unit.model)
        names = tuple(p.name for p in model.parameters(unit.variant)) if model else ()
        if names != unit.parameters:
            raise DataError(
                f"{path}: the parameters of {unit.model}/{unit.variant} are not those of this "
                "codesign; fit it anew: codesign fit"
            )
    return SensitivityModel(content, models)
