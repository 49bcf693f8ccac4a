"""Watches the GPUs of this machine from another thread while something runs on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from codesign.capture.conditions import Conditions
from codesign.capture.nvml import Nvml, open_nvml

INTERVAL_S = 0.1


@contextmanager
def observed(interval_s: float = INTERVAL_S) -> Iterator[Conditions]:
    """Sample the GPUs until the block ends, or `Conditions.enough` is called."""
    seen = Conditions()
    with open_nvml() as nvml:
        if isinstance(nvml, str):
            seen.absent = nvml
            yield seen
            return
        gpus = range(nvml.count)
        seen.facts = {i: nvml.facts(i) for i in gpus}
        seen.topology = nvml.topology()
        seen.uuids = nvml.uuids()
        seen.before = {i: nvml.processes(i) or frozenset() for i in gpus}
        seen.busy_before = {i: busy for i in gpus if (busy := nvml.busy(i)) is not None}
        thread = threading.Thread(
            target=_sample, args=(nvml, seen, interval_s), daemon=True, name="nvml"
        )
        thread.start()
        try:
            yield seen
        finally:
            seen.enough()
            thread.join(5.0)
            seen.errors = nvml.errors


def _sample(nvml: Nvml, seen: Conditions, interval_s: float) -> None:
    while not seen.ended.wait(interval_s):
        for index in range(nvml.count):
            seen.samples.append((time.time(), index, nvml.reading(index)))
