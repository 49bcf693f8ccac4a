"""The shipped experiments, and what the strict reader refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.projection.experiments.records import (
    experiment_files,
    load_experiments,
    read_experiments,
    recipe_of,
)

GOOD: dict[str, object] = {
    "name": "x", "title": "X", "lever": "hbm_bandwidth",
    "before": {"system": "hgx-h100"}, "after": {"system": "hgx-h200"},
    # 4.8 / 3.35 TB/s and 141 / 80 GB.
    "moved": {"hbm_bandwidth": 1.433, "hbm_capacity": 1.7625},
    "measured": {"by": "published", "ratio": 1.4}, "hold_out": ["h200-sxm"], "source": "someone",
}  # fmt: skip


def write(tmp_path: Path, **changes: object) -> Path:
    record = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"experiments": [record]}), encoding="utf-8")
    return path


def test_every_shipped_record_reads_and_names_are_its_own() -> None:
    found = load_experiments()
    assert len({e.name for e in found}) == len(found) >= 60
    assert {e.lever for e in found} >= {
        "hbm_bandwidth", "precision", "nvlink_domain", "power", "communication_sms", "ranks",
        "generation",
    }  # fmt: skip
    assert {e.role for e in found} == {"test", "control"}
    assert len(experiment_files()) >= 6


def test_no_record_lets_the_model_see_the_part_after_or_what_came_later() -> None:
    from codesign.hardware import load_system

    age = {"ampere": 0, "ada": 1, "hopper": 1, "blackwell": 2, "blackwell-ultra": 3,
           "blackwell-pro": 2}  # fmt: skip
    tables = {"a100-80gb-sxm": 0, "l40s": 1, "h100-sxm": 1, "h200-sxm": 1, "b200-sxm": 2,
              "b300-sxm": 3, "gb200": 2, "gb300": 3, "rtx-pro-6000-server": 2}  # fmt: skip
    for e in load_experiments():
        after = load_system(e.after.system).gpu
        assert after.name in e.hold_out
        if e.kernels is None and e.before.recipe is None:
            continue  # Nothing is projected.
        newer = {g for g, born in tables.items() if born > age[after.architecture]}
        assert newer <= set(e.hold_out), e.name


def test_a_sound_record_reads(tmp_path: Path) -> None:
    (found,) = read_experiments(write(tmp_path))
    assert found.before.system == "hgx-h100"
    assert found.measured.tolerance == 0.02


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"lever": "hbm"}, r"lever: unknown lever 'hbm'"),
        ({"after": {"system": "hgx-h2000"}}, r"after\.system: unknown system"),
        ({"hold_out": ["b200-sxm"]}, r"hold_out: lacks h200-sxm"),
        ({"moved": {"hbm_bandwidth": 1.433}}, r"moved\.hbm_capacity: missing; .*x1\.76"),
        ({"moved": {"hbm_bandwidth": 1.5, "hbm_capacity": 1.76}}, r"moved\.hbm_bandwidth: 1\.5"),
        ({"moved": {"hbm": 1.0, "hbm_bandwidth": 1.433, "hbm_capacity": 1.76}}, r"moved: unknown"),
        ({"measured": {"by": "kernels", "ratio": 1.4}}, r"measured\.by: 'kernels' goes with"),
        ({"measured": {"by": "composed", "ratio": 1.4}}, r"measured\.by: 'composed' needs"),
        ({"measured": {"by": "hearsay", "ratio": 1.4}}, r"measured\.by: .*hearsay"),
        ({"measured": {"by": "published", "ratio": -1.0}}, r"ratio = -1"),
        ({"measured": {"by": "published", "ratio": 1.4, "spread": [1.5, 2.0]}}, r"spread"),
        ({"measured": {"by": "published", "ratio": 1.4, "tolerance": 0.5}}, r"tolerance"),
        ({"source": " "}, r"source: empty"),
        ({"speed": 2}, r"unknown field `speed`; allowed: name, title"),
        ({"title": None}, r"missing required field `title`"),
        ({"before": {"system": "hgx-h100", "recipe": "llama-3.1-8b-sft"}}, r"after\.recipe"),
        ({"before": {"system": "hgx-h100", "where": {"rows": 1}}}, r"before\.where: unknown"),
        ({"kernels": {"op_class": "gemm", "where": {"m": {}}}}, r"expected min, max or both"),
    ],
)  # fmt: skip
def test_a_bad_record_names_file_and_key(
    tmp_path: Path, changes: dict[str, object], key: str
) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(DataError, match=rf"mine\.yaml: .*{key}") as caught:
        read_experiments(path)
    assert "\n" not in str(caught.value)


def test_a_recipe_is_changed_key_by_key_and_stays_strict(tmp_path: Path) -> None:
    side = {"system": "hgx-h100", "recipe": "llama-3.1-8b-sft",
            "set": {"precision": {"gemm": "fp8"}}}  # fmt: skip
    (found,) = read_experiments(write(tmp_path, before=side, after={**side, "system": "hgx-h200"}))
    recipe = recipe_of(found.before)
    assert (recipe.precision.gemm, recipe.precision.attention) == ("fp8", "bf16")
    wrong = {**side, "set": {"precision": {"gem": "fp8"}}}
    with pytest.raises(DataError, match=r"precision: .*unknown field `gem`"):
        read_experiments(write(tmp_path, before=wrong, after={**side, "system": "hgx-h200"}))


def test_names_choose_and_own_folders_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments").mkdir()
    write(tmp_path / "experiments")
    monkeypatch.setenv("CODESIGN_HWSPECS", str(tmp_path))
    assert [e.name for e in load_experiments(("x",))] == ["x"]
    with pytest.raises(UsageError, match=r"unknown experiment 'y'.*known: "):
        load_experiments(("y",))
