"""One op as the look-ups see it: plain Python values, None for null."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from codesign._common.errors import DataError

_NUMBERS = ("m", "n", "k", "batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim",
            "head_dim_v", "window", "experts", "experts_total", "topk", "tokens",
            "message_bytes", "group_size", "group_stride", "domain_span")  # fmt: skip
_TEXTS = ("op_class", "name", "precision", "phase", "kv_precision", "fused", "distribution",
          "collective")  # fmt: skip


@dataclass(frozen=True)
class Op:
    """A row of the ops table; sizes are of one call."""

    numbers: dict[str, int]
    texts: dict[str, str]
    causal: bool
    bytes_a_call: float | None

    def size(self, name: str) -> int:
        """A dimension that the op must have. Raises DataError naming op and dimension."""
        if name not in self.numbers:
            raise DataError(f"{self.label}: {name} is missing, so its time cannot be looked up")
        return self.numbers[name]

    def get(self, name: str, default: int) -> int:
        """A dimension, or ``default`` where it is null."""
        return self.numbers.get(name, default)

    def text(self, name: str, default: str = "") -> str:
        """A word of the op, or ``default`` where it is null."""
        return self.texts.get(name, default)

    @property
    def backward(self) -> bool:
        """Whether this row is a gradient, not a forward op computed again."""
        return self.text("phase") == "backward" and self.text("name").endswith(
            (".backward", ".dgrad", ".wgrad")
        )

    @property
    def label(self) -> str:
        """Op and shape in words, for messages."""
        shape = ", ".join(f"{k}={v}" for k, v in self.numbers.items())
        words = " ".join(
            self.texts[k] for k in ("op_class", "name", "precision") if k in self.texts
        )
        return f"{words} ({shape})"


def ops_of(ops: pd.DataFrame) -> list[Op]:
    """Every row as an Op. Raises DataError if a row's count is not positive."""
    result = []
    for position, row in enumerate(ops.to_dict("records")):
        count = float(row["count"])
        if not count > 0:
            raise DataError(f"ops table: row {position}, count = {count}, expected above 0")
        size = row["bytes"]
        result.append(Op(
            {c: int(row[c]) for c in _NUMBERS if not pd.isna(row[c])},
            {c: str(row[c]) for c in _TEXTS if not pd.isna(row[c])},
            causal=bool(row["causal"]) if not pd.isna(row["causal"]) else False,
            bytes_a_call=None if pd.isna(size) else float(size) / count,
        ))  # fmt: skip
    return result
