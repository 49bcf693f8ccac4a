"""What went wrong with a run under capture, in one line."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from codesign._common.errors import CodesignError, DataError, InsufficientDataError
from codesign._common.text import counted
from codesign.capture.boot.settings import Settings
from codesign.capture.launch import Outcome
from codesign.capture.session import captured

_KILLED = {int(signal.SIGKILL): " (as a system does that has run out of memory)"}
_HINT = "mark steps with --step-marker forward, function:MODULE:NAME or annotation:NAME"


def problem(outcome: Outcome, settings: Settings, program: str) -> CodesignError | None:
    """What went wrong with a run, in one line; None if nothing did."""
    found = outcome.statuses
    ended = _ending(outcome, program)
    failed = next((s for s in found if s["state"] == "failed"), None)
    if failed is not None:
        return DataError(str(failed["error"]))
    ranks = captured(list(found))
    if ranks:
        return _captured(outcome, settings, program, ended, ranks)
    stepping = [s for s in found if s["steps"] > 0]
    if ended:
        steps = max((int(s["steps"]) for s in stepping), default=0)
        # Of a process that was killed the last number is up to a second old.
        least = "at least " if (outcome.exit_code or 0) < 0 else ""
        after = f" after {least}{counted(steps, 'step')} and" if steps else ""
        return DataError(f"{ended}{_exception(found)},{after} before any step was captured")
    if outcome.interruption is not None:
        return None
    return InsufficientDataError(_nothing(outcome, settings, program, stepping))


def _nothing(outcome: Outcome, settings: Settings, program: str,
             stepping: Sequence[Mapping[str, Any]]) -> str:  # fmt: skip
    """Why a run that ended well left nothing."""
    if not outcome.statuses:
        return (
            f"{program}: no Python process of it imported PyTorch, so there is nothing to "
            "capture; python -E, -I and -S shut the capture out, and so does what hands no "
            "environment on (sudo, ssh, docker run): put the command inside of it"
        )
    if any(s["state"] == "not wanted" for s in outcome.statuses):
        return f"none of the ranks {list(settings.ranks or ())} took part; see --ranks"
    if not stepping:
        what = "no optimizer stepped" if settings.marker == "optimizer" else "no step ended"
        return f"{program}: {what} ({settings.marker}); {_HINT}"
    return _too_few(program, settings, stepping)


def _too_few(program: str, settings: Settings, stepping: Sequence[Mapping[str, Any]]) -> str:
    steps = max(int(s["steps"]) for s in stepping)
    return (
        f"{program}: {steps} steps in all, and {settings.steps_needed} are needed "
        f"(warm-up {settings.warmup}, baseline {settings.baseline}, 1 for the profiler, "
        f"{settings.steps} profiled); run longer, or lower --warmup, --baseline, --steps"
    )


def _ending(outcome: Outcome, program: str) -> str:
    """How the command ended if not well, else empty."""
    if outcome.ended_by == "timeout":
        return (
            f"{program}: the window was not captured within {outcome.elapsed_s:.0f} s (--timeout)"
        )
    code = outcome.exit_code
    if outcome.ended_by != "itself" or code == 0 or code is None:
        return ""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"{program}: ended by {signal.Signals(-code).name}{_KILLED.get(-code, '')}"
    return f"{program}: ended with exit code {code}"


def _exception(found: Sequence[Mapping[str, Any]]) -> str:
    """The exception that came first: others, of ranks and launchers, come of it."""
    failed = [s for s in found if s.get("exception")]
    if not failed:
        return ""
    return f" ({min(failed, key=lambda s: float(s.get('failed_at', 0.0)))['exception']})"


def _captured(
    outcome: Outcome, settings: Settings, program: str, ended: str,
    ranks: Sequence[Mapping[str, Any]],
) -> CodesignError | None:  # fmt: skip
    """What went wrong with a run that left something."""
    whole = all(s["state"] == "saved" for s in ranks)
    if ended:
        after = ", after the capture" if whole else ""
        return DataError(f"{ended}{_exception(outcome.statuses)}{after}")
    if whole or outcome.interruption is not None:
        return None
    overflow = next((s["overflow"] for s in ranks if s.get("overflow")), None)
    if overflow is not None:
        return InsufficientDataError(f"{program}: {overflow}; lower --steps to so many")
    return InsufficientDataError(_too_few(program, settings, ranks))
