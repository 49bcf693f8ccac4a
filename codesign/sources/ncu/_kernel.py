"""One profiled launch, as any page of Nsight Compute tells it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from codesign.sources.ncu._values import number, unit

IDENTITY = {
    "ID": "id", "Process ID": "process", "Process Name": "process_name", "Kernel Name": "kernel",
    "Block Size": "block", "Grid Size": "grid", "Device": "device", "CC": "compute_capability",
    "Context": "context", "Stream": "stream",
}  # fmt: skip
"""Columns that say which kernel it was; they are kept as text."""

DEVICE_NAME = "device__attribute_display_name"
_MAX_METRICS = 20_000


@dataclass
class Kernel:
    """What is known of a launch: who it was, its metrics in SI, texts that matter."""

    identity: dict[str, str]
    metrics: dict[str, float] = field(default_factory=dict)
    """By ``name [SI unit]``, or the name alone where there is no unit."""
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, unit_text: str, value: str) -> None:
        """Keep a metric in SI; the same name with another unit is another metric.

        Raises DecimalComma as ``number``.
        """
        amount = number(value)
        if math.isnan(amount):
            if name == DEVICE_NAME and value.strip():
                self.texts[name] = value.strip()
            return
        factor, si = unit(unit_text)
        column = f"{name} [{si}]" if si else name
        if len(self.metrics) < _MAX_METRICS:
            self.metrics.setdefault(column, amount * factor)
