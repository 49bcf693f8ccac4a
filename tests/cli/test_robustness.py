"""What goes wrong outside of codesign: outputs, streams, signals, hostile names."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

CODE = "from codesign.cli.main import main; main()"
KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 10,
          "args": {"stream": 7, "device": 0, "correlation": 1}}  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [KERNEL]}))
    return path


def run(
    *arguments: object, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)],
        stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False,
        encoding="utf-8", errors="replace", env={**os.environ, **environment},
    )  # fmt: skip


def refused(result: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert result.returncode == code, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert all(text in result.stderr for text in said), result.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [("-", "name of a file"), (".", "name of a file"), ("", "name of a file"),
     ("folder", "folder"), ("folder/", "folder"), ("pipe", "no ordinary file"),
     ("report.html", ".parquet"), ("run", ".parquet")],
)  # fmt: skip
def test_an_output_that_cannot_be_is_refused_and_left_alone(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    before = sorted(Path().iterdir())
    refused(run("characterize", "--from", trace, "-o", name), 2, said)
    assert sorted(Path().iterdir()) == before
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode)


def test_an_output_that_exists_needs_force_in_a_script_too(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    out.write_bytes(b"precious")
    refused(run("characterize", "--from", trace, "-o", out), 2, "run.parquet: exists", "--force")
    assert out.read_bytes() == b"precious"
    assert run("characterize", "--from", trace, "-o", out, "--force").returncode == 0
    assert out.read_bytes() != b"precious"


def test_a_folder_that_is_a_file_is_found_before_the_work(trace: Path) -> None:
    refused(run("characterize", "--from", trace, "-o", trace / "x.parquet"), 2, "is no folder")


@pytest.mark.parametrize(
    "arguments",
    [["characterize", "--from", "-", "-o", "x.parquet"], ["show", "-"],
     ["project", "-", "--model", "m.json", "--set", "sm_count=x2"],
     ["project", "c.parquet", "--model", "-", "--set", "sm_count=x2"],
     ["recommend", "default", "--model", "-"]],
)  # fmt: skip
def test_standard_input_is_refused_in_one_line(arguments: list[str]) -> None:
    refused(run(*arguments), 2, "standard input is not read")


def test_work_is_shown_where_someone_watches_and_nowhere_else(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    arguments = ["characterize", "--from", str(trace), "-o", str(out), "--force"]
    watched, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        stdout=subprocess.DEVNULL, stderr=terminal, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    # Linux ends the reading of a terminal that everyone left with an error.
    with contextlib.suppress(OSError):
        while piece := os.read(watched, 4096):
            shown += piece
    os.close(watched)
    assert process.wait(timeout=60) == 0
    assert b"reading" in shown
    assert b"wrote" in shown
    lines = run(*arguments).stderr.splitlines()
    assert lines[-1].startswith(f"wrote {out} (")
    assert all(line.startswith("warning: ") for line in lines[:-1])
    assert all(line.startswith("warning: ") for line in run(*arguments, "-q").stderr.splitlines())


def test_an_input_is_never_the_output(tmp_path: Path, trace: Path) -> None:
    path = tmp_path / "same.parquet"
    path.write_bytes(trace.read_bytes())
    refused(run("characterize", "--from", path, "-o", path, "--force"), 2, "also an input")
    assert path.read_bytes() == trace.read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["hw", "list"], ["hw", "list", "--json"]])
def test_a_full_disk_behind_stdout_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        refused(run(*arguments, stdout=full.fileno()), 3, "standard output", "No space left")


@pytest.mark.parametrize("arguments", [["--help"], ["hw", "list"], ["characterize", "--list"]])
def test_a_reader_that_has_gone_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = run(*arguments, stdout=writer)
    os.close(writer)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_closed_stdout_is_no_error() -> None:
    command = f'"{sys.executable}" -c "{CODE}" hw list >&-'
    result = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_half_written_file(
    trace: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    # The write is slowed from outside, so that the signal comes in the middle of it.
    slow = (
        "import signal, time, pyarrow.parquet as pq\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def write(table, sink, **_):\n"
        "    sink.write(b'half')\n"
        "    sink.flush()\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "pq.write_table = write\n"
    )
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", slow + CODE, "characterize", "--from", str(trace), "-o",
         str(out / "run.parquet")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert list(out.iterdir()) == []


def test_an_error_of_our_own_is_one_line_that_says_how_to_see_more() -> None:
    broken = (
        "import codesign.hardware.load as load\n"
        "def fail(*_): raise RuntimeError('first\\nsecond')\n"
        "load.spec_files = fail\n"
    )
    command = [sys.executable, "-c", broken + CODE, "hw", "check"]
    plain = subprocess.run(command, capture_output=True, text=True, check=False)
    refused(plain, 1, "internal error", "RuntimeError", "CODESIGN_TRACEBACK")
    shown = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env={**os.environ, "CODESIGN_TRACEBACK": "1"},
    )  # fmt: skip
    assert "Traceback" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["characterize", "--nonsense"], "codesign characterize --help"),
     (["show"], "codesign show --help"), (["hw", "nope"], "codesign hw --help"),
     (["show", "x", "--top", "0"], "--top")],
)  # fmt: skip
def test_a_usage_error_is_one_line_that_points_to_the_help(arguments: list[str], said: str) -> None:
    refused(run(*arguments), 2, said)


def test_names_cannot_steer_the_terminal(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    name = "a\x1b[31m\n</script>|作"
    made = run("characterize", "--from", trace, "--workload", name, "-o", out)
    shown = run("show", out)
    missing = run("show", tmp_path / "\x1b[31m\nnone.parquet")
    refused(missing, 3, "none.parquet")
    for result in (made, shown, missing):
        assert "\x1b" not in (result.stdout + result.stderr)
    assert json.loads(run("show", out, "--json").stdout)["header"]["workload"] == name


def test_a_file_name_that_is_no_text_is_read(trace: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/t\xff.json"))
    try:
        trace.rename(odd)
    except OSError:
        pytest.skip("the file system holds UTF-8 names only")
    out = tmp_path / "run.parquet"
    result = run("characterize", "--from", odd, "--workload", "w\udcff", "-o", out)
    assert result.returncode == 0, result.stderr
    assert run("show", out, PYTHONIOENCODING="ascii").returncode == 0


def test_a_damaged_gzip_trace_says_how_to_read_what_is_there(tmp_path: Path) -> None:
    import gzip

    packed = bytearray(gzip.compress(json.dumps({"traceEvents": [KERNEL]}).encode()))
    packed[-8:-4] = b"\0\0\0\0"  # the checksum
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed)
    refused(run("characterize", "--from", path, "-o", tmp_path / "x.parquet"), 3,
            "--allow-truncated")  # fmt: skip


def test_a_file_of_the_library_that_names_an_unknown_gpu_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ngpu: h999\n")
    refused(run("hw", "show", path), 3, "mine.yaml: gpu:", "h100-sxm")


def test_a_missing_extra_says_what_to_install(tmp_path: Path) -> None:
    hide = (
        "import sys, importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n.startswith('aiconfigurator') else find(n, *a)\n"
        "sys.modules['aiconfigurator_core'] = None\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", hide + CODE, "characterize", "--recipe", "llama-3.1-8b-sft", "-o",
         str(tmp_path / "x.parquet")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused(result, 2, "codesign[perfdb]")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.json", '{"traceEvents": []}', "no device activity"),
        ("t.bin", "\x00\x01", "expected a characterization (.parquet), a PyTorch/Kineto trace"),
        ("g.yaml", "name: g\nsm_count: 3\n", "codesign hw show"),
        ("p.yaml", "title: p\nworkloads: []\n", "codesign recommend"),
        ("r.yaml", "title: p\nfoo: []\n", "allowed: name"),
    ],
)
def test_show_says_which_command_a_file_is_for(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    refused(run("show", path), 3, name, said)


def test_a_misspelt_recipe_lists_those_there_are() -> None:
    refused(run("show", "llama-3.1-8b-stf"), 3, "llama-3.1-8b-sft")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--recipe", "r", "--workload", "w"], "--workload"),
        (["--recipe", "r", "--repair"], "--repair"),
        (["--recipe", "r", "--allow-truncated"], "--allow-truncated"),
        (["--from", "t", "--allow-extrapolation"], "--allow-extrapolation"),
    ],
)
def test_an_option_without_effect_is_refused(arguments: list[str], option: str) -> None:
    refused(run("characterize", *arguments, "-o", "x.parquet"), 2, option)


def test_system_and_workload_fill_in_what_a_characterization_lacks(
    trace: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    assert run("characterize", "--from", trace, "-o", first).returncode == 0
    result = run(
        "characterize", "--from", first, "--system", "hgx-h200", "--workload", "w", "-o", second
    )
    assert "w on hgx-h200" in result.stdout
    again = run(
        "characterize", "--from", second, "--system", "hgx-h100", "-o", tmp_path / "c.parquet"
    )
    refused(again, 2, "measured on hgx-h200")
