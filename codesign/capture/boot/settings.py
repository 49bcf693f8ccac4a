"""What is captured, as the parent writes it and every captured process reads it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "CODESIGN_CAPTURE"
"""Environment variable that names the settings file of the session."""


@dataclass(frozen=True)
class Settings:
    """One capture session."""

    folder: str
    """Where statuses and traces go."""
    steps: int = 5
    """Steps to profile."""
    warmup: int = 3
    """Steps to let pass first."""
    baseline: int = 3
    """Steps to time without the profiler, after the warm-up: what it is compared with."""
    marker: str = "optimizer"
    """What ends a step: see `markers`."""
    ranks: tuple[int, ...] | None = None
    """Global ranks to profile; None means all."""

    @property
    def steps_needed(self) -> int:
        """Steps that the script must do, the profiler's own warm-up step included."""
        return self.warmup + self.baseline + 1 + self.steps

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read what `save` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["ranks"] is not None:
            content["ranks"] = tuple(content["ranks"])
        return cls(**content)


def from_environment() -> Settings | None:
    """Settings of the session that this process belongs to, or None."""
    path = os.environ.get(VARIABLE)
    return Settings.load(Path(path)) if path else None
