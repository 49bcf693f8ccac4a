"""`codesign show` over every kind of file, and over files that are none."""

import json
import subprocess
import sys

import msgspec
import pytest
from click.testing import CliRunner

from codesign.cli.main import cli
from codesign.recommend.schema import Backtest, BacktestRow, Interval, WorkloadBacktestRow
from codesign.workload.characterization import (
    Characterization,
    Header,
    Quality,
    Reliability,
    StepTimes,
)
from codesign.workload.schema import ops_frame
from tests.cli.test_experiments import order, row
from tests.recommend import cases


@pytest.fixture
def characterization(tmp_path):
    base = {"count": 2.0, "evidence": "measured"}
    ops = ops_frame([
        {**base, "op_class": "gemm", "name": "[red]evil[/red]\x1b[2J", "precision": "bf16",
         "m": 64, "n": 128, "k": 256, "time_s": 3e-3, "exposed_s": 3e-3, "flops": 6e9},
        {**base, "op_class": "collective", "name": "tp.all_reduce", "collective": "all_reduce",
         "message_bytes": 10**9, "group_size": 8, "time_s": 10e-3, "exposed_s": 6e-3,
         "evidence": "modelled"},
        {**base, "op_class": "attention", "name": "attention", "batch": 4, "heads": 8,
         "kv_heads": 2, "q_len": 1, "kv_len": 4096, "head_dim": 128, "time_s": 0.5e-3,
         "exposed_s": 0.5e-3},
        {**base, "op_class": "other", "name": "unknown"},
    ])  # fmt: skip
    header = Header(
        workload="w", system="hgx-h100", title="A workload 設計", gpus=8, step_time_s=10e-3,
        idle_s=0.5e-3, assumptions={"fusion": "norms"}, tokens_per_step=4096.0,
        quality=Quality(known_work_share=0.9, warnings=("only [bold]1[/bold] step",),
                        reliability={"idle": Reliability(False, ("graph replays",))}),
    )  # fmt: skip
    path = tmp_path / "run.parquet"
    Characterization(header, ops).save(path)
    return path


def show(*arguments):
    result = CliRunner().invoke(cli, ["show", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_characterization(characterization):
    text = show(characterization)
    assert "A workload 設計" in text
    for part in ("hgx-h100", "64 x 128 x 256", "10.0 ms", "1.00 GB over 8", "no: graph replays",
                 "60.0 %", "90.0 %", "2.00 TFLOP/s", "b4 h8/2 d128 q1 kv4096"):  # fmt: skip
        assert part in text, part


def test_collectives_show_their_bus_bandwidth(characterization):
    # 1 GB all-reduce over 8 in 5 ms a call
    assert "350 GB/s bus" in show(characterization)


def test_names_are_shown_literally_and_harmlessly(characterization):
    text = show(characterization)
    assert "[red]evil[/red]" in text
    assert "[bold]1[/bold]" in text
    assert "\x1b" not in text


def test_top_limits_the_list(characterization):
    assert "top 1 of 4 ops" in show(characterization, "--top", 1)
    assert "evil" not in show(characterization, "--top", 1)


def test_json_of_a_characterization_adds_up(characterization):
    data = json.loads(show(characterization, "--json"))
    assert data["kind"] == "characterization"
    assert data["header"]["workload"] == "w"
    assert sum(b["share"] for b in data["breakdown"]) == pytest.approx(1.0)
    assert sum(data["evidence"].values()) == pytest.approx(1.0)
    assert data["top_ops"][0]["message_bytes"] == 10**9
    assert "m" not in data["top_ops"][0]


def test_a_recipe_by_name_and_by_file(tmp_path):
    by_name = show("llama-3.1-8b-sft")
    assert "8.0 billion" in by_name
    assert "gate_up_proj" in by_name
    data = json.loads(show("llama-3.1-8b-sft", "--json"))
    assert data["gpus"] == 8
    assert data["parameters"] == pytest.approx(8.03e9, rel=1e-3)
    assert len(data["sha256"]) == 64


def test_a_backtest(tmp_path):
    row = BacktestRow(
        op_class="gemm", precision="bf16", target="h200-sxm", tier="transfer", source="h100-sxm",
        trained_on=("a100-sxm",), n=100, median_ape=0.043, mape=0.063, p90_ape=0.1, bias=-0.01,
        coverage_90=0.91, roofline_median_ape=0.44, ratio_median_ape=None,
    )  # fmt: skip
    workload = WorkloadBacktestRow(
        workload="decode", source="hgx-h100", target="hgx-h200", measured_gain=1.36,
        projected_gain=Interval(1.33, 1.2, 1.5), error=-0.022, covered=True,
        trained_on=("a100-sxm",),
    )  # fmt: skip
    path = tmp_path / "backtest.json"
    path.write_bytes(msgspec.json.encode(Backtest((row,), (workload,), protocol="leave one out")))
    text = show(path)
    for part in ("leave one out", "4.3 %", "44.0 %", "x1.360", "x1.330 [1.200, 1.500]", "-2.2 %"):
        assert part in text, part
    assert json.loads(show(path, "--json"))["kind"] == "backtest"


def test_a_backtest_of_experiments_alone(tmp_path):
    result = Backtest(experiments=(row("hit", True), row("miss", False)),
                      lever_order=(order("good", ()),))  # fmt: skip
    path = tmp_path / "experiments.json"
    path.write_bytes(msgspec.json.encode(result))
    text = show(path)
    assert "op class" not in text  # no empty tables
    missed = next(line for line in text.splitlines() if "miss" in line)
    assert "x1.500" in missed
    assert "x1.100 to x1.300" in missed
    assert "NO" in missed
    assert "good: hbm_bandwidth +0.70" in text


def test_an_incomplete_capture_says_so_and_a_small_share_is_not_zero(tmp_path):
    rows = [{"op_class": "gemm", "name": "large", "time_s": 1.0},
            {"op_class": "norm", "name": "small", "time_s": 1e-5}]  # fmt: skip
    ops = ops_frame([
        {**row, "count": 1.0, "exposed_s": row["time_s"], "evidence": "measured"} for row in rows
    ])  # fmt: skip
    quality = Quality(complete=False, known_work_share=0.0, steps_found=1)
    path = tmp_path / "run.parquet"
    Characterization(Header("w", "hgx-h100", step_time_s=1.00001, quality=quality), ops).save(path)
    lines = {line.split("│")[1].strip(): line for line in show(path).splitlines() if "│" in line}
    assert "no" in lines["complete"]
    assert "0 %" in lines["known work share"]
    assert ">99.9 %" in lines["gemm"]
    assert "<0.1 %" in lines["norm"]


def test_recommendations_as_the_report_prints_them(tmp_path):
    recs = cases.run()
    path = tmp_path / "r.json"
    path.write_bytes(msgspec.json.encode(recs))
    text = show(path)
    first = recs.recommendations[0]
    assert f"x{first.gain.value:.3f} [{first.gain.lo:.3f}, {first.gain.hi:.3f}]" in text
    # Not studied is no gain of 1, and its status is no key of the file.
    capacity = next(line for line in text.splitlines() if "HBM capacity" in line)
    assert "not studied" in capacity
    assert "x1" not in capacity
    assert "4.00 s" in text  # the toy workloads take 4 s each
    assert "tensor cores" in text


def test_a_model_by_its_keys(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({
        "trained_on": ["a100-sxm", "h100-sxm"], "seed": 3,
        "classes": {"gemm": {"rows": 1000, "sigma": 0.05, "deep": {"x": [1]}}},
    }))  # fmt: skip
    text = show(path)
    for part in ("a100-sxm, h100-sxm", "gemm", "1000", "0.05"):
        assert part in text, part


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"PAR1", b"\x00\xff", b'{"trained', b'{"a": 1}', b"plain text",
     b'{"recommendations": [], "levers": 3}', b'{"ops": 1, "workloads": [], "protocol": ""}',
     b"[" * 100_000],
)  # fmt: skip
def test_anything_else_is_one_line_and_exit_code_3(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    code = "from codesign.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "show", str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 3, result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert str(path) in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["gone.parquet", "gone.json", "."])
def test_a_missing_file_or_a_folder(tmp_path, name):
    result = CliRunner().invoke(cli, ["show", str(tmp_path / name)])
    assert type(result.exception).__name__ == "DataError"
    assert "cannot read" in str(result.exception)


def test_a_broken_recipe_names_its_key(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("name: x\ncolour: red\n")
    result = CliRunner().invoke(cli, ["show", str(path)])
    assert type(result.exception).__name__ == "DataError"
    assert "r.yaml" in str(result.exception)


def saved_pair(tmp_path, factor):
    paths = []
    for name, scale in (("a.parquet", 1.0), ("b.parquet", factor)):
        steps = tuple(
            StepTimes(name=f"step {i}", device="0", time_s=scale * (10e-3 + 1e-5 * i),
                      compute_s=scale * 10e-3, comm_s=0.0, exposed_comm_s=0.0, exposed_copy_s=0.0,
                      idle_s=0.0, kernels=1, kernel_time_s=scale * 10e-3)
            for i in range(4)
        )  # fmt: skip
        ops = ops_frame([{"op_class": "gemm", "name": "[b]mm[/b]\x1b[2J", "count": 1.0,
                          "time_s": scale * 10e-3, "time_sd_s": 1e-5, "exposed_s": scale * 10e-3,
                          "evidence": "measured"}])  # fmt: skip
        header = Header("w", "hgx-h100", step_time_s=scale * 10.015e-3, steps=steps,
                        quality=Quality(steps_found=4, steps_by="ProfilerStep"))  # fmt: skip
        Characterization(header, ops).save(tmp_path / name)
        paths.append(tmp_path / name)
    return paths


def test_a_difference_says_what_got_slower_and_how_sure(tmp_path):
    text = show("--diff", *saved_pair(tmp_path, 1.2))
    assert "B's step is 20.0 % slower (+2.00 ms); significant: p = <0.001, n = 4 and 4" in text
    assert "[b]mm[/b]\\x1b[2J" in text
    assert "slower" in text


def test_a_difference_without_steps_speaks_of_none(tmp_path):
    """Benchmarks and summaries by kernel: there is no step that their times are of."""
    paths = saved_pair(tmp_path, 1.2)
    assert "time a step" in show("--diff", *paths)
    for path in paths:
        Characterization.load(path).with_header(step_time_s=None, steps=()).save(path)
    text = show("--diff", *paths)
    assert "a step" not in text
    assert "by op class, time" in text


def test_a_difference_as_json(tmp_path):
    data = json.loads(show("--diff", "--json", *saved_pair(tmp_path, 0.5)))
    assert data["kind"] == "difference"
    assert data["ops"][0]["ratio"] == 0.5
    assert data["ops"][0]["delta_s"] == pytest.approx(-5e-3)
    assert data["parts"][0]["before"]["steps"] == 4


@pytest.mark.parametrize(("factor", "limit", "code"), [(1.2, 5, 5), (1.2, 30, 0), (0.8, 0, 0)])
def test_a_slower_step_fails_where_that_was_asked(tmp_path, factor, limit, code):
    files = [str(p) for p in saved_pair(tmp_path, factor)]
    result = CliRunner().invoke(cli, ["show", "--diff", *files, "--fail-above", str(limit)])
    assert (getattr(result.exception, "exit_code", 0) or 0) == code
    assert "by op class" in result.output  # what changed is shown all the same


@pytest.mark.parametrize(
    "arguments", [["--diff", "a"], ["--diff", *"abc"], ["a", "--fail-above", "1"]]
)
def test_a_wrong_number_of_files_is_a_usage_error(arguments):
    result = CliRunner().invoke(cli, ["show", *arguments])
    assert result.exit_code == 2


def test_several_ranks_are_one_job(shared_data):
    files = [str(shared_data / f"kineto/sampled_rank-{r}.json.gz") for r in (0, 1)]
    text = show(*files)
    assert "2 ranks, a step" in text
    assert "over \N{BOX DRAWINGS LIGHT VERTICAL}" not in text
    assert json.loads(show("--json", *files))["header"]["ranks"] == [0, 1]


def test_several_files_that_are_no_ranks_are_a_usage_error(shared_data, characterization):
    trace = str(shared_data / "kineto/sampled_rank-0.json.gz")
    for other in (characterization, shared_data / "nsys/h100_matmul.sqlite", "default"):
        result = CliRunner().invoke(cli, ["show", trace, str(other)])
        assert result.exception is not None
        assert (getattr(result.exception, "exit_code", 0) or result.exit_code) == 2


def test_outputs_of_profilers_are_shown_at_once(shared_data):
    for path in ("kineto_edge/triton_example.json.gz", "xplane/tw003.xplane.pb",
                 "nsys/h100_matmul.sqlite", "ncu/cublaslt_ncu.log", "nccl_tests/nccl_allreduce.log",
                 "nsys/summary_cuda_gpu_kern_sum.csv"):  # fmt: skip
        assert "where the" in show(shared_data / path)
