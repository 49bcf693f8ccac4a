"""Under which conditions a capture ran, and what they make of its times."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from codesign.capture.nvml import SEVERE, Reading, plain_uuid
from codesign.capture.session import captured
from codesign.workload.characterization import Characterization, Reliability

if TYPE_CHECKING:
    from codesign.workload.characterization import Quality

THROTTLED_SHARE = 0.05
"""Share of the window's samples from which on a slowdown makes its times unreliable."""
_MOST_SAMPLES = 50_000
"""Ten minutes of eight GPUs; older ones are dropped, and sampling ends with the window."""
_MARGIN_S = 1.0
"""Around a window that is too short for a sample, those that near tell of it."""
_BUSY = 0.10
"""Share of a GPU's time from which on it was in use before the workload started."""
_HELD = 0.02
"""Difference of clocks that is still the one that was to be held: they come in steps."""


@dataclass
class Conditions:
    """What was seen of the GPUs of this machine."""

    absent: str = ""
    """Why nothing could be seen; empty if it could."""
    facts: dict[int, dict[str, str]] = field(default_factory=dict)
    topology: dict[str, str] = field(default_factory=dict)
    uuids: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """(GPU, whether it is a MIG slice of it)."""
    samples: deque[tuple[float, int, Reading]] = field(
        default_factory=lambda: deque(maxlen=_MOST_SAMPLES)
    )
    """(time, GPU, reading)."""
    before: dict[int, frozenset[int]] = field(default_factory=dict)
    """Processes on each GPU before the workload started."""
    busy_before: dict[int, float] = field(default_factory=dict)
    """Share of its time that each GPU was in use then."""
    held_clock_hz: float | None = None
    """SM clock that the user asked to hold."""
    errors: dict[str, str] = field(default_factory=dict)
    """Why NVML did not answer, by its questions."""
    statuses: Sequence[Mapping[str, Any]] = ()
    """Of the captured processes: when their windows were, and on which device."""
    ended: threading.Event = field(default_factory=threading.Event)

    def enough(self) -> None:
        """The window is over: nothing that comes later belongs to it."""
        self.ended.set()

    def record(self, char: Characterization) -> Characterization:
        """The characterization with its conditions, and doubts where they were bad."""
        ranks = captured([dict(s) for s in self.statuses if "state" in s])
        ranks = ranks or [dict(s) for s in self.statuses if "device" in s][:1]
        lead = ranks[0] if ranks else {}
        found = {f"env {k}": v for k, v in lead.get("environment", {}).items()}
        on_gpu = [s for s in ranks if s.get("device", {}).get("type") == "cuda"]
        if self.held_clock_hz is not None:
            found["SM clock to be held"] = f"{self.held_clock_hz / 1e6:.0f} MHz"
        if not on_gpu:
            return char.with_header(conditions=found) if found else char
        if self.absent:
            text = f"{self.absent}: clocks, power and throttling are not known"
            return _doubt(char.with_header(conditions=found), text, ())
        char = char.with_header(conditions=found | self.topology)
        for status in on_gpu:
            char = self._of_rank(char, status, status is on_gpu[0])
        return char

    def _of_rank(self, char: Characterization, status: Mapping[str, Any],
                 lead: bool) -> Characterization:  # fmt: skip
        """Judge the GPU of one rank, since all wait for the slowest; of the lead tell all."""
        who = "" if lead else f"rank {status.get('rank', 0)}: "
        index, sliced = self._gpu(status["device"])
        if index is None:
            text = f"{who}NVML does not show the GPU that was used: its conditions are not known"
            return _doubt(char, text, ())
        readings = self._window(index, status)
        if lead:
            values, texts = _summary(readings)
            held = char.header.conditions | self.facts.get(index, {}) | texts
            char = char.with_header(conditions=held, totals=char.header.totals | values)
        if sliced:
            text = f"{who}ran on a MIG slice; power and clocks are those of the whole GPU"
            char = _doubt(char, text, ())
        char = self._clocks(char, who, readings)
        return self._shared(char, who, index, readings, status)

    def _gpu(self, device: Mapping[str, Any]) -> tuple[int | None, bool]:
        """NVML's index of a device of PyTorch's; numbers differ, so only the UUID tells."""
        uuid = plain_uuid(str(device.get("uuid", "")))
        if uuid in self.uuids:
            return self.uuids[uuid]
        only = len(self.facts) == 1 and not uuid
        return (0 if only else None), False

    def _window(self, index: int, status: Mapping[str, Any]) -> list[Reading]:
        since = float(status.get("since", 0.0))
        until = float(status.get("until", time.time()))
        for margin in (0.0, _MARGIN_S):
            found = [r for at, i, r in self.samples
                     if i == index and since - margin <= at <= until + margin
                     and r != Reading()]  # fmt: skip
            if found:
                break
        return found

    def _clocks(self, char: Characterization, who: str,
                readings: Sequence[Reading]) -> Characterization:  # fmt: skip
        told = [r.throttle for r in readings if r.throttle is not None]
        if not told:
            reason = self.errors.get("DeviceGetCurrentClocksThrottleReasons", "no samples")
            text = f"{who}whether the GPU was throttled is not known: NVML does not tell ({reason})"
            char = _doubt(char, text, ())
        for reason, count in Counter(r for reasons in told for r in reasons).most_common():
            share = count / len(told)
            severe = reason in SEVERE and share >= THROTTLED_SHARE
            text = f"{who}the GPU's clock was held down by {reason} in {share:.0%} of the samples"
            char = _doubt(char, text, ("step_time",) if severe else ())
        clocks = [r.sm_clock_hz for r in readings if r.sm_clock_hz is not None]
        if self.held_clock_hz and clocks:
            mean_hz = statistics.fmean(clocks)
            if abs(mean_hz / self.held_clock_hz - 1.0) > _HELD:
                text = (f"{who}the SM clock was {mean_hz / 1e6:.0f} MHz, not the "
                        f"{self.held_clock_hz / 1e6:.0f} MHz to be held")  # fmt: skip
                char = _doubt(char, text, ("step_time",))
        return char

    def _shared(self, char: Characterization, who: str, index: int, readings: Sequence[Reading],
                status: Mapping[str, Any]) -> Characterization:  # fmt: skip
        """Whether another process computed on the GPU, as far as that can be seen."""
        told = [r.processes for r in readings if r.processes is not None]
        during = frozenset().union(*told)
        if not during:  # not even our own: a container hides them, or there is no permission
            busy = self.busy_before.get(index, 0.0)
            inside = status.get("pid") == os.getpid()
            if busy >= _BUSY and not inside:
                text = f"{who}the GPU was in use ({busy:.0%} of the time) before the command began"
                return _doubt(char, text, ("step_time", "idle"))
            known = {"other processes on the GPU": "not visible from here"}
            return char.with_header(conditions=char.header.conditions | known)
        own = {int(s["pid"]) for s in self.statuses if "pid" in s}
        if own & during:
            others = len(during - own)
        else:  # numbered by another name space than ours: those that were there before us
            mine = 1 if status.get("pid") == os.getpid() else 0
            others = max(0, len(self.before.get(index, frozenset()) & during) - mine)
        if not others:
            return char
        return _doubt(
            char, f"{who}{others} other process(es) computed on the same GPU",
            ("step_time", "idle"),
        )  # fmt: skip


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
    told = [r.throttle for r in readings if r.throttle is not None]
    if told:
        values["throttled_share"] = sum(bool(reasons) for reasons in told) / len(told)
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
