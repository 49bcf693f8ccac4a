"""Which compute hides which collective: a recipe's assumptions turned into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

    from codesign.workload.recipe import Recipe


ANY = "any"


def overlap_rules(ops: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Per row of ``ops``: ``hidden_by`` (a phase, null if nothing hides it) and ``share``,
    the most of that phase's compute that can.

    A collective's kind is its name up to the first dot.
    """
    import pandas as pd

    hidden_by: list[str | None] = []
    share: list[float] = []
    for op_class, name, phase in zip(ops["op_class"], ops["name"], ops["phase"], strict=True):
        rule = recipe.overlap_of(str(name).split(".")[0]) if op_class == "collective" else None
        if rule is None:
            hidden_by.append(None)
            share.append(0.0)
        else:
            hidden_by.append(phase if rule.behind == "same" else rule.behind)
            share.append(rule.share)
    return pd.DataFrame(
        {"hidden_by": pd.Series(hidden_by, dtype="string"), "share": share}
    ).set_axis(ops.index)


def overlap_windows(ops: pd.DataFrame, recipe: Recipe) -> pd.Series[float]:
    """``overlap_window_s`` of every row from the rows' ``time_s``; null where nothing hides it.

    A kind takes no more than its share of a phase's compute and the kinds behind one
    phase no more than all of it, in proportion to what each could use, so that no
    compute hides two collectives at once. What hides behind any phase comes last and
    takes what the others leave.
    """
    import pandas as pd

    rules = overlap_rules(ops, recipe)
    time = ops["time_s"].to_numpy(dtype=float, na_value=0.0)
    is_compute = ~ops["op_class"].isin(["collective", "copy"]).to_numpy(dtype=bool)
    phase = ops["phase"].to_numpy(dtype=object)
    hidden_by = rules["hidden_by"].fillna("").to_numpy(dtype=object)
    kind = ops["name"].astype(str).str.split(".").str[0].to_numpy(dtype=object)
    share = rules["share"].to_numpy(dtype=float)
    windows = np.full(len(ops), np.nan)
    for behind in sorted(set(hidden_by) - {"", ANY}):
        compute_s = time[is_compute & (phase == behind)].sum()
        groups = [np.flatnonzero((hidden_by == behind) & (kind == k))
                  for k in sorted(set(kind[hidden_by == behind]))]  # fmt: skip
        wanted_s = [time[g].sum() for g in groups]
        granted_s = _granted(wanted_s, [share[g[0]] * compute_s for g in groups], compute_s)
        for group, wanted, granted in zip(groups, wanted_s, granted_s, strict=True):
            windows[group] = granted * time[group] / wanted if wanted > 0 else 0.0
    anywhere = hidden_by == ANY
    if anywhere.any():
        names = sorted(set(phase[is_compute | anywhere]) - {"optimizer"}, key=str)
        hidden_s = np.fmin(np.nan_to_num(windows), time)
        free_s = np.array([
            time[is_compute & (phase == name)].sum() - hidden_s[hidden_by == name].sum()
            for name in names
        ])  # fmt: skip
        sent_s = np.array([time[anywhere & (phase == name)].sum() for name in names])
        shared_s = _shared(sent_s, share[anywhere].min() * free_s)
        for name, sent, window in zip(names, sent_s, shared_s, strict=True):
            rows = anywhere & (phase == name)
            windows[rows] = window * time[rows] / sent if sent > 0 else 0.0
    return pd.Series(windows, index=ops.index).astype("Float64")


def _shared(
    sent_s: npt.NDArray[np.float64], free_s: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Window of each phase's collectives where they may hide behind other phases too.

    Each takes its own phase's free compute first, so that faster compute there shows
    there; only what a phase cannot use goes to those that lack some.
    """
    spare, lack = np.maximum(free_s - sent_s, 0.0), np.maximum(sent_s - free_s, 0.0)
    moved = min(float(spare.sum()), float(lack.sum()))
    if moved <= 0:
        return free_s
    windows: npt.NDArray[np.float64] = (
        free_s + lack * moved / lack.sum() - spare * moved / spare.sum()
    )
    return windows


def _granted(wanted_s: list[float], limit_s: list[float], compute_s: float) -> list[float]:
    """Compute given to each kind: at most its limit, together at most ``compute_s``.

    Compute that nobody can use now is handed out too, since a kind whose time grows
    on other hardware would find it free.
    """
    usable = [min(wanted, limit) for wanted, limit in zip(wanted_s, limit_s, strict=True)]
    total = sum(usable)
    scale = compute_s / total if total > 0 else 0.0
    return [min(limit, use * scale) for use, limit in zip(usable, limit_s, strict=True)]
