"""Published runs from a file: rates by hand, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.cluster.calibrate import prepare
from codesign.cluster.run_file import read_runs
from codesign.cluster.summary import model_flops
from tests.cluster.fakes import Roofline

SHIPPED = Path(__file__).resolve().parents[2] / "benchmarks" / "published_runs.yaml"
RUN = "{source: s, system: hgx-h100, model: llama-3-8b, gpus: 8, batch: 16, sequence: 8192"


def _file(tmp_path: Path, rest: str) -> Path:
    path = tmp_path / "runs.yaml"
    path.write_text(f"runs:\n  - {RUN}, {rest}}}\n", encoding="utf-8")
    return path


def test_the_three_ways_to_say_a_rate_agree(tmp_path: Path) -> None:
    tokens = 16 * 8192
    by_step = read_runs(_file(tmp_path, "step_s: 2.0"))[0]
    by_rate = read_runs(_file(tmp_path, f"tokens_per_s_gpu: {tokens / 8 / 2.0}"))[0]
    share = model_flops(by_step.job) / (2.0 * 8 * 989.4e12)
    by_mfu = read_runs(_file(tmp_path, f"mfu: {share}"))[0]
    assert by_step.step_s == by_rate.step_s == 2.0
    assert by_mfu.step_s == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("step_s: 2.0, mfu: 0.4", "exactly one"),
        ("step_s: -1", "above 0"),
        ("step_s: .nan", "above 0"),
        ("tp: 3, step_s: 1", "does not divide"),
        ("step_s: 1, precison: fp8", "precison"),
    ],
)  # fmt: skip
def test_a_bad_run_is_named(tmp_path: Path, rest: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_runs(_file(tmp_path, rest))


def test_shipped_models_have_the_parameters_that_their_papers_count() -> None:
    runs = {run.job.name: run.job.model for run in read_runs(SHIPPED)}
    for name, billions in (("gpt-22b", 22.0), ("gpt-175b", 174.6), ("gpt-530b", 529.6),
                           ("gpt-1t", 1008.0), ("nemotron-4-340b", 341.0)):  # fmt: skip
        assert runs[name].parameters() / 1e9 == pytest.approx(billions, rel=0.01)


def test_published_utilizations_follow_from_published_times() -> None:
    """Korthikanti et al. 2022, table 5: MFU of 41.5, 51.4, 56.0 and 56.3 % from the step times."""
    runs = [r for r in read_runs(SHIPPED) if r.release == "arXiv:2205.05198"]
    # The paper counts attention of all pairs; ours of causal ones: one half of s / (6 h).
    for run, published in zip(runs, (0.415, 0.514, 0.560, 0.563), strict=True):
        mfu = model_flops(run.job) / (run.step_s * run.job.gpus * 312e12)
        assert mfu == pytest.approx(published, rel=0.03)


def test_what_a_part_differs_in_is_applied() -> None:
    run = next(r for r in read_runs(SHIPPED) if r.release.startswith("torchtitan"))
    system = prepare([run], Roofline())[0].system
    assert system.gpu.power_w == pytest.approx(500, rel=0.001)
    assert system.gpu.hbm_bandwidth_bytes_per_s == pytest.approx(2.4e12, rel=0.001)
    assert system.gpu.hbm_capacity_bytes == pytest.approx(96e9)
