"""Files of framework rules (``reports/frameworks/*.yaml``), read strictly."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from codesign._common.errors import DataError, one_of
from codesign._common.files import data_dir
from codesign._common.records import convert
from codesign._common.text import quoted
from codesign._common.yamlfiles import load_yaml
from codesign.cluster.framework_rules import FrameworkRules, Rule, When
from codesign.cluster.job import list_models
from codesign.hardware import list_systems


def load_rules(path: Path) -> FrameworkRules:
    """The rules of a file, in order.

    Raises DataError naming file, key path and what is allowed there, in one line.
    """
    found = convert(load_yaml(path), FrameworkRules, str(path))
    if not found.source.strip():
        raise DataError(f"{path}: source: empty; say where the rules come from")
    for index, rule in enumerate(found.rules):
        _check(rule, f"{path}: rules[{index}]")
    return found


@lru_cache(maxsize=1)
def shipped_rules() -> FrameworkRules:
    """What the published recipes of Megatron Bridge switch on."""
    return load_rules(data_dir("reports") / "frameworks" / "megatron-bridge.yaml")


def _check(rule: Rule, place: str) -> None:
    """Raise DataError for a rule that gives no reason, sets nothing, or can never hold."""
    if not rule.why.strip():
        raise DataError(f"{place}.why: empty; say which configuration sets this")
    if not rule.set.given():
        raise DataError(f"{place}.set: empty; name at least one key")
    for key in ("releases", "systems", "models", "precisions"):
        if getattr(rule.when, key) == ():
            raise DataError(f"{place}.when.{key}: empty, so that the rule never holds")
    _check_names(rule.when, f"{place}.when")
    _check_releases(rule.when, f"{place}.when")


def _check_names(when: When, place: str) -> None:
    for kind, names, known in (
        ("system", when.systems, list_systems()), ("model", when.models, list(list_models())),
    ):  # fmt: skip
        for name in names or ():
            if name not in known:
                raise DataError(f"{place}.{kind}s: {one_of(kind, name, known)}")


def _check_releases(when: When, place: str) -> None:
    given = [("releases", text) for text in when.releases or ()]
    given += [
        (key, text) for key in ("since", "before") if (text := getattr(when, key)) is not None
    ]
    for key, text in given:
        if not _RELEASE.fullmatch(text):
            raise DataError(f'{place}.{key}: {quoted(text)} is no release; expected as "26.02"')


_RELEASE = re.compile(r"[0-9]{2}\.[0-9]{2}(\.[0-9]+)*")
