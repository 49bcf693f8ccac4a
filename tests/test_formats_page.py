"""The formats page against the readers: no key of a file that a user writes is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codesign.hardware import load
from codesign.workload.recipe import Parallelism, Precision, Recipe

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "formats.md").read_text(encoding="utf-8")


def section(title: str) -> set[str]:
    """Words in code quotes of one section."""
    body = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([\w.]+)`", body))


@pytest.mark.parametrize("record", [Recipe, Precision, Parallelism])
def test_every_key_of_a_recipe_is_on_the_page(record: type) -> None:
    assert set(record.__annotations__) <= section("Workload recipes")


def test_every_key_of_a_gpu_and_of_a_system_is_on_the_page() -> None:
    assert {*load._GPU_KEYS, *load._SYSTEM_KEYS} <= section("GPUs and systems")
