"""Which compute hides which collective: a recipe's assumptions turned into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from codesign.workload.recipe import Recipe


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

    Collectives that hide behind the same phase share its compute in proportion to
    their own time, so that no compute hides two of them at once.
    """
    import pandas as pd

    rules = overlap_rules(ops, recipe)
    time = ops["time_s"].to_numpy(dtype=float, na_value=0.0)
    is_compute = ~ops["op_class"].isin(["collective", "copy"]).to_numpy(dtype=bool)
    phase = ops["phase"].to_numpy(dtype=object)
    windows = np.full(len(ops), np.nan)
    for behind in rules["hidden_by"].dropna().unique():
        compute = time[is_compute & (phase == behind)].sum()
        rivals = rules["hidden_by"].eq(behind).fillna(False).to_numpy(dtype=bool)
        total = time[rivals].sum()
        part = time[rivals] / total if total > 0 else np.zeros(int(rivals.sum()))
        windows[rivals] = rules["share"].to_numpy()[rivals] * compute * part
    return pd.Series(windows, index=ops.index).astype("Float64")
