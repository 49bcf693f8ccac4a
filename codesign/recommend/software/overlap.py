"""Communication and copies that nothing hides, and that compute of the step could hide."""

from __future__ import annotations

import numpy as np

from codesign.recommend.software.draft import Draft, Effect
from codesign.recommend.software.look import Array, Look, Mask
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent

LEAST_SHARE = 0.01


def exposed_communication(look: Look) -> Draft | str | None:
    """Collectives that stand alone, each hideable behind compute of its phase that is free.

    Compute that already hides something is not free. Of each kind in a phase one call stays
    exposed: the last has nothing left to hide behind.
    """
    rows = look.of_class("collective") & (look.step.exposed_s > 0)
    at_stake = float(look.step.exposed_s[rows].sum())
    if at_stake < LEAST_SHARE * look.step_s:
        return None
    hidden = hideable(look, rows, _but_one_call(look, rows))
    if float(hidden.sum()) < LEAST_SHARE * look.step_s:
        return None
    effect = Effect(np.ones(len(look.ops)), hidden)
    kinds = _by_kind(look, rows, hidden)
    left = at_stake - float(hidden.sum())
    return Draft(
        effect, np.flatnonzero(hidden > 0),
        f"{seconds(at_stake)} of collectives ({percent(at_stake / look.step_s)} of the step) run "
        f"while nothing computes: {kinds}",
        at_stake, left,
        "a collective can hide behind the compute of its phase that hides nothing yet; of each "
        "kind in a phase one mean call stays exposed, the last",
    )  # fmt: skip


def _but_one_call(look: Look, rows: Mask) -> Array:
    """(ops,) exposed time less that of one mean call of the row's kind in its phase."""
    wanted = np.where(rows, look.step.exposed_s, 0.0)
    count, kind, phase = look.number("count", 1.0), look.text("collective"), look.text("phase")
    for key in {(kind[i], phase[i]) for i in np.flatnonzero(rows)}:
        here = rows & (kind == key[0]) & (phase == key[1])
        wanted[here] *= max(0.0, 1.0 - 1.0 / max(float(count[here].sum()), 1.0))
    return np.asarray(wanted)


def hideable(look: Look, rows: Mask, wanted: Array) -> Array:
    """(ops,) seconds of ``wanted`` that free compute of each row's phase can hide.

    Rows of a phase share its compute in proportion to what they want. Rows whose phase is
    not known come last and take what is left of all.
    """
    phase, compute = look.text("phase"), look.compute
    hidden = np.zeros(len(look.ops))
    busy_beside = ~compute & ~np.isnan(look.number("exposed_s"))
    for name in sorted(set(phase[rows]), reverse=True):
        here = rows & (phase == name)
        among = phase == name if name else np.ones(len(phase), dtype=bool)
        used = look.step.time_s - look.step.exposed_s + hidden
        taken = float(used[busy_beside & among].sum())
        free = max(float(look.step.exposed_s[compute & among].sum()) - taken, 0.0)
        asked = float(wanted[here].sum())
        if asked > 0:
            hidden[here] = wanted[here] * min(1.0, free / asked)
    return hidden


def _by_kind(look: Look, rows: Mask, hidden: Array) -> str:
    kind, phase = look.text("collective"), look.text("phase")
    total: dict[str, list[float]] = {}
    for i in np.flatnonzero(rows):
        where = f" in {phase[i]}" if phase[i] else ""
        label = f"{kind[i] or look.text('name')[i]}{where}".replace("_", "-")
        sums = total.setdefault(label, [0.0, 0.0])
        sums[0] += float(look.step.exposed_s[i])
        sums[1] += float(hidden[i])
    ordered = sorted(total.items(), key=lambda item: (-item[1][0], item[0]))[:4]
    return "; ".join(
        f"{label} {seconds(exposed)}, of which {seconds(can)} could hide"
        for label, (exposed, can) in ordered
    )


def unhidden_copies(look: Look) -> Draft | str | None:
    """Copies between host and device that run while nothing computes."""
    rows = look.of_class("copy") & look.named(r"memcpy.*(HtoD|DtoH|host)")
    exposed = float(look.step.exposed_s[rows].sum())
    if exposed < 0.005 * look.step_s:
        return None
    wanted = np.where(rows, look.step.exposed_s, 0.0)
    # The next step's data may move behind any compute of this one.
    free = float(look.step.exposed_s[look.compute].sum())
    hidden = wanted * min(1.0, free / exposed)
    pageable = rows & look.named("pageable")
    kind = ""
    if pageable.any():
        kind = (
            "; from pageable memory, which the driver stages and the stream waits for: pin it "
            "(pin_memory=True) and copy with non_blocking=True"
        )
    moved = look.number("bytes", 0.0)[rows].sum()
    rate = f", {moved / look.step.time_s[rows].sum() / 1e9:.3g} GB/s" if moved > 0 else ""
    return Draft(
        Effect(np.ones(len(look.ops)), hidden), np.flatnonzero(rows),
        f"{seconds(exposed)} of the step ({percent(exposed / look.step_s)}) is copies between host "
        f"and device that nothing hides{rate}: {ops_in_words(look, np.flatnonzero(rows))}{kind}",
        exposed, exposed - float(hidden.sum()),
        f"a copy engine runs beside the SMs; the step has {seconds(free)} of compute to hide it",
    )  # fmt: skip
