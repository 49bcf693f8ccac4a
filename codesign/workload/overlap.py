"""Which compute hides which collective: a recipe's assumptions turned into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
    shares what the others leave by its times: where one phase's exchanges get shorter, the
    compute that hid them is there for those of the others.
    """
    import pandas as pd

    rules = overlap_rules(ops, recipe)
    time = ops["time_s"].to_numpy(dtype=float, na_value=0.0)
    is_compute = ~ops["op_class"].isin(["collective", "copy"]).to_numpy(dtype=bool)
    phase = ops["phase"].fillna("").to_numpy(dtype=object)
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
        useful = is_compute & (phase != "optimizer")
        behind_one = ~np.isin(hidden_by, ["", ANY, "optimizer"])
        free_s = time[useful].sum() - np.fmin(windows, time)[behind_one].sum()
        granted = share[anywhere].min() * max(free_s, 0.0)
        sent_s = time[anywhere].sum()
        windows[anywhere] = granted * time[anywhere] / sent_s if sent_s > 0 else 0.0
    return pd.Series(windows, index=ops.index).astype("Float64")


def _granted(wanted_s: list[float], limit_s: list[float], compute_s: float) -> list[float]:
    """Compute given to each kind: at most its limit, together at most ``compute_s``.

    Compute that nobody can use now is handed out too, since a kind whose time grows
    on other hardware would find it free.
    """
    usable = [min(wanted, limit) for wanted, limit in zip(wanted_s, limit_s, strict=True)]
    total = sum(usable)
    scale = compute_s / total if total > 0 else 0.0
    return [min(limit, use * scale) for use, limit in zip(usable, limit_s, strict=True)]
