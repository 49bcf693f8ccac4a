"""Hashes of what a ranking was made from, so that a later one can say what changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from codesign._common.files import code_hash

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.recommend.portfolio import Portfolio
    from codesign.recommend.schema import Backtest
    from codesign.recommend.study import Study
    from codesign.workload.characterization import Characterization

WORKLOAD = "workload "
"""Opens the key of a workload's fingerprint."""
_CODE = ("_common", "hardware", "workload", "sensitivity", "projection", "recommend")
"""Parts of the package that a ranking runs through."""
_SETTINGS = ("ranking", "min_gain", "saturation_threshold", "budgets")


def fingerprints(study: Study, prices: Costs, backtest: Backtest | None) -> dict[str, str]:
    """SHA-256 by what: each workload's ops and step, baseline, cost values, backtest, code.

    Of the content, not of the file: the same ops read again from another file are the same.
    """
    found = {f"{WORKLOAD}{name}": workload_hash(study.chars[name]) for name in study.weights}
    found |= {
        "baseline": _text_hash(repr(study.base)), "costs": _text_hash(repr(prices.values)),
        "code": code_hash(_CODE),
    }  # fmt: skip
    if backtest is not None:
        found["backtest"] = hashlib.sha256(
            msgspec.json.encode(backtest, order="deterministic")
        ).hexdigest()
    return found


def settings(portfolio: Portfolio) -> dict[str, Any]:
    """What of a portfolio decides the order, besides workloads, weights and steps."""
    return {key: getattr(portfolio, key) for key in _SETTINGS}


def workload_hash(char: Characterization) -> str:
    """SHA-256 of the ops and of what of the header a projection reads."""
    from pandas.util import hash_pandas_object

    header = char.header
    read = (header.system, header.phase, header.gpus, header.step_time_s, header.idle_s,
            header.bubble_s, header.quality.reliability, header.caveats)  # fmt: skip
    found = hashlib.sha256(msgspec.json.encode(read, order="deterministic"))
    found.update("\0".join(char.ops.columns).encode())
    found.update(hash_pandas_object(char.ops, index=False).to_numpy().tobytes())
    return found.hexdigest()


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
