"""What puts the times of some ops in doubt, where that may change a decision."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec


class Caveat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A doubt about ops of a workload. A report shows it beside every gain that rests on them."""

    text: str
    """What is doubtful, and why."""
    ops: tuple[str, ...] = ()
    """Names of the ops, as shell patterns (``ep.*``); empty means every op."""
    share: float = 1.0
    """Part of the time of these ops that may not be there."""
    gpus: tuple[str, ...] = ()
    """GPUs whose measurements it is about; empty means whatever was measured."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("text is empty; a caveat has to say what is doubtful")
        if not 0 < self.share <= 1:
            raise ValueError(f"share = {self.share}, expected above 0, at most 1")
        if not all(pattern.strip() for pattern in self.ops):
            raise ValueError("ops holds an empty pattern; leave ops out to mean every op")

    def concerns(self, name: str) -> bool:
        """Whether an op of this name is in doubt."""
        return not self.ops or any(fnmatchcase(name, pattern) for pattern in self.ops)
