"""Which of codesign's own JSON files a file is, by its first bytes."""

from __future__ import annotations

import re

# The key that each begins with; one that is common elsewhere needs a second one near it.
_FIRST_KEYS = (
    ("model", re.compile(rb'\s*\{\s*"trained_on"\s*:')),
    ("backtest", re.compile(rb'\s*\{\s*"ops"\s*:\s*\[\s*(\{\s*"op_class"|\]\s*,\s*"workloads")')),
    ("recommendations", re.compile(rb'\s*\{\s*"title"\s*:[^{}\[\]]{0,2000}"audience"\s*:')),
)
KIND_TEXTS = {
    "model": "a sensitivity model", "backtest": "a backtest", "recommendations": "recommendations",
    "characterization": "a characterization", "portfolio": "a portfolio", "recipe": "a recipe",
    "hardware": "a GPU or system", "measurement": "a profiler's output",
}  # fmt: skip
"""Each kind as a message says it."""


def own_json(head: bytes) -> str | None:
    """``model``, ``backtest`` or ``recommendations`` for the first bytes of one, else None."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    return next((kind for kind, first in _FIRST_KEYS if first.match(text)), None)
