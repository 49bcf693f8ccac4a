"""How a job is spread over its GPUs: one plan as a record, many as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

Recompute = Literal["none", "selective", "full"]
Schedule = Literal["1f1b", "zero_bubble", "dualpipe"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
SCHEDULES: tuple[Schedule, ...] = ("1f1b", "zero_bubble", "dualpipe")


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """Ranks nest tp, cp, dp, pp from the inside out; expert groups are neighbours."""

    tp: int = 1
    cp: int = 1
    pp: int = 1
    vpp: int = 1
    """Model chunks a stage (interleaved 1F1B)."""
    ep: int = 1
    """Expert parallelism inside tp x cp x dp; experts are not split by tp."""
    dp: int = 1
    zero: Literal[0, 1, 2, 3] = 1
    """What data parallelism shards: 0 nothing, 1 optimizer, 2 gradients too, 3 parameters too."""
    micro_batch: int = 1
    """Sequences of one forward pass."""
    recompute: Recompute = "none"
    """``selective``: norms, activation functions and MLA's up-projections; ``full``: layers."""
    schedule: Schedule = "1f1b"

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "pp", "vpp", "ep", "dp", "micro_batch"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} = {getattr(self, name)}, expected 1 to 1000000")

    @property
    def gpus(self) -> int:
        """GPUs that the plan takes."""
        return self.tp * self.cp * self.pp * self.dp

    def __str__(self) -> str:
        parts = [f"{k}{getattr(self, k)}" for k in ("tp", "cp", "pp", "vpp", "ep", "dp")
                 if getattr(self, k) > 1]  # fmt: skip
        parts += [f"zero{self.zero}", f"mbs{self.micro_batch}"]
        if self.recompute != "none":
            parts.append(f"recompute-{self.recompute}")
        if self.schedule != "1f1b":
            parts.append(self.schedule)
        return " ".join(parts)


@dataclass(frozen=True)
class Plans:
    """Plans as arrays of shape (plans,); ``recompute`` and ``schedule`` index their tuples."""

    tp: Ints
    cp: Ints
    pp: Ints
    vpp: Ints
    ep: Ints
    dp: Ints
    zero: Ints
    micro_batch: Ints
    recompute: Ints
    schedule: Ints

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> Plans:
        """Arrays of ``plans``, in their order."""
        rows = [
            (p.tp, p.cp, p.pp, p.vpp, p.ep, p.dp, p.zero, p.micro_batch,
             RECOMPUTE.index(p.recompute), SCHEDULES.index(p.schedule))
            for p in plans
        ]  # fmt: skip
        return cls.from_rows(np.array(rows, dtype=np.int64).reshape(-1, 10))

    @classmethod
    def from_rows(cls, rows: Ints) -> Plans:
        """Plans from (plans, 10) values in the order of the fields."""
        return cls(*(np.ascontiguousarray(column) for column in rows.T))

    def __len__(self) -> int:
        return int(self.tp.size)

    def rows(self) -> Ints:
        """(plans, 10) values in the order of the fields."""
        return np.column_stack([getattr(self, f.name) for f in fields(self)])

    def take(self, keep: NDArray[np.bool_] | NDArray[np.intp]) -> Plans:
        """The plans that a mask or an index picks."""
        return Plans(*(getattr(self, f.name)[keep] for f in fields(self)))

    def plan(self, index: int) -> Plan:
        """One of them as a record."""
        values = [int(getattr(self, f.name)[index]) for f in fields(self)]
        names = [f.name for f in fields(self)][:8]
        return msgspec.convert(
            dict(zip(names, values[:8], strict=True))
            | {"recompute": RECOMPUTE[values[8]], "schedule": SCHEDULES[values[9]]},
            Plan,
        )
