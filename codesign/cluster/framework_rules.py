"""Rules by which a framework's published recipes switch things on: what holds, what is set.

All rules that hold apply, in order, a later one over those before it: a new fact is a new
record, and an exception stands below what it is one of. `framework_table` reads them from files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from codesign.cluster.job import Framework, TrainingPrecision
from codesign.cluster.plan import Plan, Recompute
from codesign.workload.model_config import ModelConfig


class Within(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whole numbers from ``min`` to ``max``, both included."""

    min: int | None = None
    max: int | None = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("expected min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min = {self.min} is above max = {self.max}, which nothing is")


Count = int | Within


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold of a run, all of it; nothing given holds of all."""

    releases: tuple[str, ...] | None = None
    since: str | None = None
    before: str | None = None
    systems: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    label: str | None = None
    precisions: tuple[TrainingPrecision, ...] | None = None
    experts: bool | None = None
    mla: bool | None = None
    layers: Count | None = None
    tp: Count | None = None
    cp: Count | None = None
    pp: Count | None = None
    vpp: Count | None = None
    ep: Count | None = None
    zero: Count | None = None
    micro_batch: Count | None = None
    model_parallel: Count | None = None
    """tp x cp x pp."""


class Switches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is set, by the names of `Framework`, `Plan` and `Job`; None: left as it is there."""

    tp_overlap: bool | None = None
    ep_overlap: bool | None = None
    graphs: Literal["none", "partial", "full"] | None = None
    fused_moe: bool | None = None
    attention_precision: Literal["bf16", "fp8"] | None = None
    dispatcher: Literal["hybrid", "fused", "all_to_all"] | None = None
    recompute: Recompute | None = None
    gradient_bytes: float | None = None
    moment_bytes: float | None = None
    offload_layers: int | None = None
    """Layers whose activations wait in host memory."""

    def __post_init__(self) -> None:
        for name in ("gradient_bytes", "moment_bytes"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 8:
                raise ValueError(f"{name} = {value}, expected above 0, at most 8")
        if self.offload_layers is not None and self.offload_layers < 0:
            raise ValueError(f"offload_layers = {self.offload_layers}, expected 0 or more")

    def given(self, kind: type[msgspec.Struct] | None = None) -> dict[str, Any]:
        """What is set, by name; with ``kind``, of that record's fields alone."""
        names = self.__struct_fields__
        values = {n: getattr(self, n) for n in names if kind is None or n in kind.__struct_fields__}
        return {name: value for name, value in values.items() if value is not None}

    def framework(self, layers: int) -> Framework:
        """How the framework runs a model of ``layers``."""
        # A model cut to fewer layers than are kept away has all of them there.
        offload = min((self.offload_layers or 0) / layers, 1.0)
        return msgspec.structs.replace(Framework(offload=offload), **self.given(Framework))


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fact of the recipes."""

    when: When
    set: Switches
    why: str
    """Which configuration says so, or what it is inferred from."""


@dataclass(frozen=True)
class Facts:
    """What is known of a published run."""

    release: str
    """``26.04``, or ``26.04.01`` of a patch."""
    system: str
    """Name in the hardware library."""
    model: str
    """Name of the shipped shape."""
    label: str
    """The model as the table names it, with what it adds (tokendrop, w/o MTP)."""
    precision: TrainingPrecision
    config: ModelConfig
    plan: Plan


class FrameworkRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules in order, and where they come from."""

    source: str
    rules: tuple[Rule, ...]

    def switches(self, facts: Facts) -> Switches:
        """What the rules that hold set; of those that set one key the last decides."""
        found: dict[str, Any] = {}
        for rule in self.rules:
            if holds(rule.when, facts):
                found |= rule.set.given()
        return Switches(**found)


def holds(when: When, facts: Facts) -> bool:
    """Whether all that ``when`` asks for is so."""
    month, plan, config = _month(facts.release), facts.plan, facts.config
    counts: Mapping[str, int] = {
        "layers": config.num_hidden_layers, "tp": plan.tp, "cp": plan.cp, "pp": plan.pp,
        "vpp": plan.vpp, "ep": plan.ep, "zero": plan.zero, "micro_batch": plan.micro_batch,
        "model_parallel": plan.tp * plan.cp * plan.pp,
    }  # fmt: skip
    return (
        _among(facts.release, when.releases)
        and (when.since is None or month >= _month(when.since))
        and (when.before is None or month < _month(when.before))
        and _among(facts.system, when.systems)
        and _among(facts.model, when.models)
        and (when.label is None or when.label in facts.label)
        and _among(facts.precision, when.precisions)
        and when.experts in (None, bool(config.experts))
        and when.mla in (None, config.mla)
        and all(_inside(value, getattr(when, name)) for name, value in counts.items())
    )


def _month(release: str) -> tuple[int, ...]:
    """(year, month): a patch has what its release has."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])


def _among(value: str, allowed: tuple[str, ...] | None) -> bool:
    return allowed is None or value in allowed


def _inside(value: int, asked: Count | None) -> bool:
    if not isinstance(asked, Within):
        return asked is None or value == asked
    return (asked.min is None or value >= asked.min) and (asked.max is None or value <= asked.max)
