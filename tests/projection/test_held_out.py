"""Kept models of backtests: read again while nothing behind them changes, never when stale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codesign.projection.held_out as module
from codesign._common.errors import UsageError
from codesign._common.files import code_hash
from codesign.hardware import system_of_gpu
from codesign.projection.held_out import _CODE, HeldOut
from codesign.sensitivity import SensitivityModel, fit
from codesign.sensitivity.gemm import GemmModel
from tests.sensitivity.test_backtest import WorkDB

OLD = ("a100-80gb-sxm", "h100-sxm")


class Counted:
    """A small fit that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, db: Any, gpus: tuple[str, ...]) -> SensitivityModel:
        self.asked.append(gpus)
        return fit(db, gpus=gpus, models=(GemmModel(),), rows_per_gpu=60)


def held(folder: Path | None, fitter: Counted, said: list[str] | None = None) -> HeldOut:
    stage = (lambda _: None) if said is None else said.append
    return HeldOut(WorkDB(), folder, stage=stage, fitter=fitter)


def test_a_model_read_again_is_the_one_that_was_fitted(tmp_path: Path) -> None:
    fitter = Counted()
    first = held(tmp_path / "models", fitter).model(OLD)
    again = held(tmp_path / "models", fitter).model(OLD)
    assert fitter.asked == [OLD]
    ops, target = WorkDB().training_ops("h200-sxm", "gemm"), system_of_gpu("h200-sxm")
    for column in ("time_s", "time_lo_s", "time_hi_s"):
        times = [m.predict(ops, target)[column].to_numpy(dtype=float) for m in (first, again)]
        assert np.array_equal(*times)


def test_another_set_of_gpus_or_framework_is_another_model(tmp_path: Path) -> None:
    fitter = Counted()
    kept = held(tmp_path, fitter)
    kept.model(OLD)
    assert kept.model(("h100-sxm",)).trained_on == ("h100-sxm",)
    assert len(fitter.asked) == 2
    assert len(list(tmp_path.glob("*.json"))) == 2


def _edit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "code_hash", lambda parts: "edited")


def _other_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkDB, "name", "aiconfigurator-core 99.0", raising=False)


def _other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_GPU", 7)


def _other_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    def faster(gpu: str) -> Any:
        system = system_of_gpu(gpu)
        gpu_record = replace(system.gpu, hbm_bandwidth_bytes_per_s=9e12)
        return replace(system, gpu=gpu_record)

    monkeypatch.setattr(module, "system_of_gpu", faster)


def _other_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "version", lambda _: "0.0")


@pytest.mark.parametrize(
    "change", [_edit_code, _other_release, _other_rows, _other_hardware, _other_library]
)
def test_a_stale_model_is_never_used_and_does_not_pile_up(
    change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitter = Counted()
    held(tmp_path, fitter).model(OLD)
    (stale,) = tmp_path.glob("*.json")
    change(monkeypatch)
    held(tmp_path, fitter).model(OLD)
    assert len(fitter.asked) == 2
    (fresh,) = tmp_path.glob("*.json")
    assert fresh.name != stale.name


def test_a_damaged_or_swapped_file_is_fitted_anew(tmp_path: Path) -> None:
    fitter = Counted()
    held(tmp_path, fitter).model(OLD)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    held(tmp_path, fitter).model(OLD)
    assert len(fitter.asked) == 2
    # Another set's model under this name would have seen what is to be scored.
    fit(WorkDB(), gpus=("h200-sxm",), models=(GemmModel(),), rows_per_gpu=60).save(path)
    assert held(tmp_path, fitter).model(OLD).trained_on == OLD
    assert len(fitter.asked) == 3


def test_stages_say_what_is_left_out_and_how_many_there_are(tmp_path: Path) -> None:
    said: list[str] = []
    kept = held(tmp_path, Counted(), said)
    kept.total = 2
    kept.model(tuple(g for g in WorkDB().gpus() if g != "h200-sxm"))
    kept.model(("h100-sxm",))
    assert said[0] == "fitting without h200-sxm (1 of 2), about a minute"
    assert said[1] == "fitting on h100-sxm (2 of 2), about a minute"
    held(tmp_path, Counted(), said).model(("h100-sxm",))
    assert said[2] == f"model fitted on h100-sxm: kept in {tmp_path}"


def test_without_a_folder_nothing_is_kept_and_a_file_is_refused(tmp_path: Path) -> None:
    fitter = Counted()
    kept = held(None, fitter)
    assert kept.model(OLD) is kept.model(OLD)
    assert fitter.asked == [OLD]
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="is a file"):
        held(file, fitter)


def test_the_hash_follows_every_source_file_of_a_fit(tmp_path: Path) -> None:
    inside, outside = tmp_path / "sensitivity" / "a.py", tmp_path / "report" / "b.py"
    for path in (inside, outside):
        path.parent.mkdir()
        path.write_text("x = 1\n", encoding="utf-8")
    before = code_hash(_CODE, tmp_path)
    outside.write_text("x = 2\n", encoding="utf-8")
    assert code_hash(_CODE, tmp_path) == before
    inside.write_text("x = 2\n", encoding="utf-8")
    assert code_hash(_CODE, tmp_path) != before
    inside.rename(inside.with_name("c.py"))
    assert code_hash(_CODE, tmp_path) != before
