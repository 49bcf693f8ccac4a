"""Under which conditions a capture ran: sampled meanwhile, judged afterwards."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from codesign.capture.nvml import SEVERE, Nvml, Reading, open_nvml
from codesign.workload.characterization import Characterization, Reliability

if TYPE_CHECKING:
    from codesign.workload.characterization import Quality

INTERVAL_S = 0.1
_MAX_SAMPLES = 200_000
"""Over five hours of one GPU; the window is in the first of them or never comes."""
THROTTLED_SHARE = 0.05
"""Share of the window's samples from which on a slowdown makes its times unreliable."""


@dataclass
class Conditions:
    """What was seen of the GPUs of this machine."""

    absent: str = ""
    """Why nothing could be seen; empty if it could."""
    facts: dict[int, dict[str, str]] = field(default_factory=dict)
    topology: dict[str, str] = field(default_factory=dict)
    uuids: dict[str, int] = field(default_factory=dict)
    samples: list[tuple[float, int, Reading]] = field(default_factory=list)
    """(time, GPU, reading)."""
    before: dict[int, frozenset[int]] = field(default_factory=dict)
    """Processes on each GPU before the workload started."""
    during: dict[int, frozenset[int]] = field(default_factory=dict)
    statuses: Sequence[Mapping[str, Any]] = ()
    """Of the captured processes: when their windows were, and on which device."""

    def record(self, char: Characterization) -> Characterization:
        """The characterization with its conditions, and doubts where they were bad."""
        lead = next((s for s in self.statuses if "device" in s), {})
        found = {f"env {k}": v for k, v in lead.get("environment", {}).items()}
        device = lead.get("device", {})
        if device.get("type") != "cuda":
            return char.with_header(conditions=found) if found else char
        if self.absent:
            text = f"{self.absent}: clocks, power and throttling are not known"
            return _doubt(char.with_header(conditions=found), text, ())
        index = self.uuids.get(_plain(device.get("uuid", "")), int(device.get("index", 0)))
        found |= self.facts.get(index, {}) | self.topology
        since, until = float(lead.get("since", 0.0)), float(lead.get("until", time.time()))
        readings = [r for at, i, r in self.samples if i == index and since <= at <= until]
        values, texts = _summary(readings)
        char = char.with_header(
            conditions=found | texts, totals=char.header.totals | values
        )  # fmt: skip
        return self._judged(char, index, readings)

    def _judged(self, char: Characterization, index: int,
                readings: Sequence[Reading]) -> Characterization:  # fmt: skip
        reasons = Counter(reason for r in readings for reason in r.throttle)
        for reason, count in reasons.most_common():
            share = count / len(readings)
            severe = reason in SEVERE and share >= THROTTLED_SHARE
            text = f"the GPU's clock was held down by {reason} in {share:.0%} of the samples"
            char = _doubt(char, text, ("step_time",) if severe else ())
        others = self.before.get(index, frozenset()) & self.during.get(index, frozenset())
        if others:
            char = _doubt(
                char, f"{len(others)} other process(es) computed on the same GPU",
                ("step_time", "idle"),
            )  # fmt: skip
        return char


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-")


def _summary(readings: Sequence[Reading]) -> tuple[dict[str, float], dict[str, str]]:
    """Numbers for ``header.totals``, and the same in words."""
    values: dict[str, float] = {}
    texts: dict[str, str] = {"NVML samples in the window": str(len(readings))}
    for name, unit, scale in (("sm_clock_hz", "MHz", 1e-6), ("memory_clock_hz", "MHz", 1e-6),
                              ("power_w", "W", 1.0), ("temperature_c", "°C", 1.0)):  # fmt: skip
        seen = [v for r in readings if (v := getattr(r, name)) is not None]
        if not seen:
            continue
        quantity, _, suffix = name.rpartition("_")
        values[f"{quantity}_mean_{suffix}"] = statistics.fmean(seen)
        values[f"{quantity}_max_{suffix}"] = max(seen)
        values[f"{quantity}_min_{suffix}"] = min(seen)
        low, mean, high = (v * scale for v in (min(seen), statistics.fmean(seen), max(seen)))
        texts[quantity.replace("_", " ")] = f"{mean:.0f} {unit} ({low:.0f} to {high:.0f})"
    if readings:
        values["throttled_share"] = sum(bool(r.throttle) for r in readings) / len(readings)
    return values, texts


def _doubt(char: Characterization, text: str, unreliable: Sequence[str]) -> Characterization:
    quality: Quality = char.header.quality
    reliability = dict(quality.reliability)
    for quantity in unreliable:
        known = reliability.get(quantity, Reliability(True))
        reliability[quantity] = Reliability(False, (*known.reasons, text))
    return char.with_header(quality=msgspec.structs.replace(
        quality, warnings=(*quality.warnings, text), reliability=reliability
    ))  # fmt: skip


@contextmanager
def observed(interval_s: float = INTERVAL_S) -> Iterator[Conditions]:
    """Sample the GPUs of this machine from another thread until the block ends."""
    seen = Conditions()
    with open_nvml() as nvml:
        if isinstance(nvml, str):
            seen.absent = nvml
            yield seen
            return
        gpus = range(nvml.count)
        seen.facts = {i: nvml.facts(i) for i in gpus}
        seen.topology = nvml.topology()
        seen.uuids = {_plain(nvml.text("DeviceGetUUID", i)): i for i in gpus}
        seen.before = {i: nvml.processes(i) for i in gpus}
        ended = threading.Event()
        thread = threading.Thread(
            target=_sample, args=(nvml, seen, ended, interval_s), daemon=True, name="nvml"
        )
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            thread.join(5.0)


def _sample(nvml: Nvml, seen: Conditions, ended: threading.Event, interval_s: float) -> None:
    while not ended.wait(interval_s) and len(seen.samples) < _MAX_SAMPLES:
        for index in range(nvml.count):
            seen.samples.append((time.time(), index, nvml.reading(index)))
            seen.during[index] = seen.during.get(index, frozenset()) | nvml.processes(index)
