"""What goes wrong in a run: one clear line, the right exit code, and what was captured is kept."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

pytest.importorskip("torch")

from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign.capture.boot.settings import Settings
from codesign.capture.boot.status import Status
from codesign.capture.launch import Outcome
from codesign.capture.live import Result, characterize_command, keep, label
from codesign.capture.session import statuses
from codesign.capture.verdict import problem
from codesign.cli._live import end
from codesign.cli.characterize import command
from codesign.workload.characterization import Characterization, Header, Quality
from codesign.workload.schema import ops_frame
from tests.capture.conftest import MODEL, said

# With the defaults steps 1 to 3 warm up, 4 to 6 are the baseline, 7 settles, 8 to 12 count.
# Forward passes only: the first optimizer of a process loads PyTorch's compiler, for seconds.
FORWARD = ("--step-marker", "forward")
_TAIL = """
for i in range(1, {last} + 1):
    loss()
    if i == 10:
        {what}
"""


def capture(path: Path, marker: str = "optimizer", **options: Any) -> Result:
    settings = Settings(folder="", marker=marker)
    return characterize_command([sys.executable, str(path)], settings, workload="test", **options)


def failing(what: str, last: int = 40) -> str:
    return MODEL + _TAIL.format(what=what, last=last)


def partial(path: Path, steps: int) -> None:
    """The file holds whole steps only, and says that it is not all."""
    char = Characterization.load(path)
    assert not char.header.quality.complete
    assert char.header.quality.steps_found == steps
    assert any(w.startswith(f"incomplete: {steps} of 5") for w in char.header.quality.warnings)
    total = float(char.ops["exposed_s"].sum()) + char.header.idle_s
    assert total == pytest.approx(char.header.step_time_s, rel=1e-9)


def test_out_of_memory_in_the_script(codesign_cli: Any, script: Any, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    text = failing('raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")')
    result = codesign_cli("-q", "-o", out, *FORWARD, "--", sys.executable, script(text))
    assert result.returncode == 3
    (line,) = [text for text in said(result.stderr) if text.startswith("codesign:")]
    for part in ("train.py", "exit code 1", "OutOfMemoryError", "2 GiB", str(out), "incomplete"):
        assert part in line
    partial(out, 3)


def test_a_script_that_hangs_ends_at_the_timeout(script: Any) -> None:
    begin = time.monotonic()
    result = capture(script("import time; time.sleep(600)"), timeout_s=1.0)
    assert time.monotonic() - begin < 60
    assert isinstance(result.error, DataError)
    assert "--timeout" in str(result.error)
    assert result.characterization is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_there_is(
    codesign_cli: Any, script: Any, tmp_path: Path, number: int, code: int
) -> None:
    out, mark = tmp_path / "run.parquet", tmp_path / "mark"
    text = failing(
        f"open({str(mark)!r}, 'w').write(str(__import__('os').getpid())); time.sleep(600)"
    )
    run = codesign_cli("-q", "-o", out, *FORWARD, "--", sys.executable, script(text), wait=False)
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    run.send_signal(number)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == code, stderr
    assert any("interrupted" in line and str(out) in line for line in said(stderr))
    partial(out, 3)
    with pytest.raises(ProcessLookupError):  # nothing of it is left running
        os.kill(int(mark.read_text()), 0)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("print('no torch')", ["imported PyTorch"]),
        (MODEL + "loss().backward()", ["no optimizer stepped", "--step-marker"]),
        (failing("pass", last=6), ["6 steps in all", "12 are needed", "--warmup"]),
    ],
)
def test_too_little_to_capture(script: Any, text: str, parts: list[str]) -> None:
    result = capture(script(text), "forward" if "range" in text else "optimizer")
    assert isinstance(result.error, InsufficientDataError)
    assert all(part in str(result.error) for part in parts)
    assert result.characterization is None


def test_a_script_that_ends_inside_the_window(script: Any, tmp_path: Path) -> None:
    result = capture(script(failing("pass", last=9)), "forward")
    assert isinstance(result.error, InsufficientDataError)
    assert "9 steps in all" in str(result.error)
    result.characterization.save(tmp_path / "run.parquet")
    partial(tmp_path / "run.parquet", 2)


def test_requests_that_cannot_be_met_start_nothing(script: Any, tmp_path: Path) -> None:
    mark, out = tmp_path / "ran", tmp_path / "x.parquet"
    run = ["--", sys.executable, str(script(f"open({str(mark)!r}, 'w')"))]
    for arguments, error, part in (
        (["-o", "/proc/none/x.parquet", *run], DataError, "cannot write"),
        (["-o", str(out), "--step-marker", "sometimes", *run], UsageError, "annotation:NAME"),
        (["-o", str(out), "--ranks", "first", *run], UsageError, "0,1,7"),
        (["-o", str(out), "--", "no-such-program"], UsageError, "cannot run 'no-such-program'"),
    ):
        with pytest.raises(error, match=part):
            command.main(arguments, standalone_mode=False)
    with pytest.raises(click.UsageError, match="--repair goes with --from"):
        command.main(["-o", str(out), "--repair", *run], standalone_mode=False)
    assert not mark.exists()
    assert not out.exists()


@pytest.mark.parametrize(("limit", "said_of"), [(80_000, "trace"), (20_000, "TMPDIR")])
def test_a_full_disk(
    codesign_cli: Any, script: Any, tmp_path: Path, limit: int, said_of: str
) -> None:
    # A limit on the size of files stands in for the disk: the write fails just as late. Where
    # not even the session's own files fit, that is said before anything is run.
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    out = tmp_path / "run.parquet"
    result = codesign_cli(
        "-q", "-o", out, *FORWARD, "--", sys.executable, script(failing("pass")),
        preexec_fn=limited,
    )  # fmt: skip
    assert result.returncode == 3, result.stderr
    line = said(result.stderr)[-1]
    assert said_of in line
    assert "disk full" in line or "too large" in line
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


def test_a_full_disk_can_still_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Disk of 20 kB: what is there, and what is being written beside it.
    write = Path.write_text

    def limited(path: Path, text: str, **options: Any) -> int:
        used = sum(p.stat().st_size for p in tmp_path.iterdir())
        if used + len(text) > 20_000:
            raise OSError(28, "No space left on device")
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", limited)
    status = Status(str(tmp_path))
    status.update(steps=6)
    (tmp_path / "a trace").write_bytes(b"x" * 3500)
    status.update(state="failed", error="the trace could not be written")
    (found,) = statuses(tmp_path)
    assert (found["state"], found["steps"]) == ("failed", 6)
    (tmp_path / "a trace").write_bytes(b"x" * 20_000)
    status.update(state="lost")
    assert "No space left" in capsys.readouterr().err
    assert statuses(tmp_path) == [found]


def test_a_trace_that_does_not_fit_leaves_nothing_and_costs_no_result(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        Path(target).write_bytes(b"{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("codesign.capture.live.shutil.copyfile", full)
    folder = tmp_path / "kept"
    folder.mkdir()
    result = capture(script(failing("pass")), "forward", keep_traces=folder)
    assert "No space left" in str(result.error)
    assert result.characterization.header.quality.complete
    assert list(folder.iterdir()) == []


def test_kept_traces_are_those_of_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "run.traces"
    folder.mkdir()
    for name in ("rank-0.json", "rank-7.json", "rank-notes.json"):
        (folder / name).write_text("old")
    trace = tmp_path / "rank-0.pid-9.json"
    trace.write_text("new")
    assert keep([trace], folder) == (folder / "rank-0.json",)
    assert {p.name: p.read_text() for p in folder.iterdir()} == {
        "rank-0.json": "new", "rank-notes.json": "old",
    }  # fmt: skip
    run = ["-q", "--keep-trace", "-o", str(tmp_path / "run.parquet"), "--", "true"]
    with pytest.raises(UsageError, match="holds traces; pass --force"):
        command.main(run, standalone_mode=False)


def test_a_command_is_called_by_what_it_runs() -> None:
    assert label(["/opt/bin/python3", "-u", "-m", "torch.distributed.run", "x.py"]) == (
        "python3 -u -m torch.distributed.run"
    )
    assert label(["torchrun", "--nproc-per-node=8", "train.py", "--lr", "1"]) == (
        "torchrun --nproc-per-node=8 train.py"
    )


def outcome(*found: dict[str, Any], code: int | None = 1) -> Outcome:
    """How a command ended whose processes left these statuses."""
    ended_by = "interrupt" if code is None else "itself"
    told = tuple({"state": "stepping", "steps": 3, "pid": i, **s} for i, s in enumerate(found))
    return Outcome(code, ended_by, None, told, 1.0)


def test_the_exception_that_came_first_is_the_reason() -> None:
    # A rank fails, another misses it, and the launcher, which has no rank, sums up.
    ended = outcome(
        {"exception": "ChildFailedError: =====", "failed_at": 12.0, "steps": 0},
        {"exception": "RuntimeError: Connection closed by peer", "failed_at": 11.0, "rank": 0},
        {"exception": "ValueError: the loss is not a number", "failed_at": 10.0, "rank": 1},
    )
    error = problem(ended, Settings(folder=""), "torchrun")
    assert "the loss is not a number" in str(error)
    assert "=====" not in str(error)


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        (0, 1, "ended with exit code 1, before any step was captured"),
        (1, 1, "ended with exit code 1, after 1 step and before any step was captured"),
        (3, -9, "ended by SIGKILL (as a system does that has run out of memory), after at least "
                "3 steps and before any step was captured"),
        (0, -9, "ended by SIGKILL (as a system does that has run out of memory), before any step "
                "was captured"),
    ],
)  # fmt: skip
def test_an_early_end_says_how_and_when(steps: int, code: int, said: str) -> None:
    error = problem(outcome({"steps": steps}, code=code), Settings(folder=""), "train.py")
    assert str(error) == f"train.py: {said}"


def test_full_buffers_ask_for_fewer_steps() -> None:
    ended = outcome(
        {"state": "partial", "profiled_step_s": [0.1, 0.1], "steps": 9,
         "overflow": "the profiler's buffers were full after 2 whole steps"}, code=0,
    )  # fmt: skip
    error = problem(ended, Settings(folder=""), "train.py")
    assert isinstance(error, InsufficientDataError)
    assert "full after 2" in str(error)
    assert "--steps" in str(error)
    assert "12 are needed" not in str(error)


@pytest.mark.parametrize("complete", [True, False, None])
def test_an_interruption_says_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], complete: bool | None
) -> None:
    out = tmp_path / "run.parquet"
    header = Header(workload="x", system=None, quality=Quality(complete=bool(complete)))
    char = Characterization(header, ops_frame([]))
    with pytest.raises(KeyboardInterrupt):
        end(Result(None if complete is None else char, interruption=KeyboardInterrupt()), out)
    said = {True: f"{out} is whole", False: "marked incomplete", None: "nothing was captured"}
    line = capsys.readouterr().err
    assert [text for text in said.values() if text in line] == [said[complete]]
