"""What a file or name on the command line is, to say so where another kind was expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from codesign._common.errors import CodesignError, UsageError
from codesign._common.kinds import KIND_TEXTS, own_json

HEAD_BYTES = 65536
TRACE_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"ph"')
_READ_BY = {
    "model": "`codesign show`, or --model of project and recommend",
    "backtest": "`codesign show`, or --backtest of recommend",
    "recommendations": "`codesign show`",
    "portfolio": "`codesign recommend`",
    "recipe": "`codesign characterize --recipe`, or `codesign project --gpus N`",
    "hardware": "`codesign hw show`",
    "characterization": "`codesign show`, or `codesign project`",
    "measurement": "`codesign characterize --from`",
}


def kind_of(text: str | Path) -> str | None:
    """The kind of a file by what it holds, or of a shipped name; None if nobody can tell."""
    path = Path(text)
    try:
        if not path.is_file():
            return _named(str(text))
        if path.suffix.lower() in (".yaml", ".yml"):
            return _yaml(path)
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except (OSError, ValueError, CodesignError):
        return None
    return _of_head(head)


def _of_head(head: bytes) -> str | None:
    if head[:4] == b"PAR1":
        return "characterization"
    if head[:16] == b"SQLite format 3\0" or head[:2] == b"\x1f\x8b":
        return "measurement"
    ours = own_json(head)
    if ours is None and head.lstrip()[:1] == b"{" and any(m in head for m in TRACE_MARKS):
        return "measurement"
    return ours


def _named(name: str) -> str | None:
    """A name of what is shipped; systems and GPUs also by the names of devices."""
    from codesign.hardware import list_gpus, list_systems
    from codesign.recommend.portfolio import list_portfolios
    from codesign.workload.recipe import list_recipes

    lists: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("recipe", list_recipes), ("portfolio", list_portfolios), ("hardware", list_systems),
        ("hardware", list_gpus),
    )  # fmt: skip
    return next((kind for kind, names in lists if name in names()), None)


def _yaml(path: Path) -> str | None:
    from codesign._common.yamlfiles import load_yaml

    keys = load_yaml(path).keys()
    if "workloads" in keys:
        return "portfolio"
    if keys & {"sm_count", "nvlink_domain"}:
        return "hardware"
    return "recipe" if keys & {"parallelism", "phase"} else None


def expect(
    place: str, given: str | Path, wanted: Sequence[str], others: Sequence[str | Path | None] = ()
) -> None:
    """Refuse a file or name of another kind than the ``wanted``, first of which is named.

    ``place`` is the option or argument that it stands at; where one of the ``others`` is what
    belongs there, the message asks whether the two were swapped. What cannot be told passes.
    """
    kind = kind_of(given)
    if kind is None or kind in wanted:
        return
    swapped = any(other is not None and kind_of(other) in wanted for other in others)
    hint = "; arguments swapped?" if swapped else f", which is for {_READ_BY[kind]}"
    raise UsageError(
        f"{place} {given}: expected {KIND_TEXTS[wanted[0]]}, this is {KIND_TEXTS[kind]}{hint}"
    )
