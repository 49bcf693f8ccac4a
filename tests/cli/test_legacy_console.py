"""Names that a console cannot show: replaced there, whole in every file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from codesign.recommend.jsonfile import save_recommendations
from tests.projection.fakes import characterization, gemm
from tests.report.small import short
from tests.sources.kineto.traces import kernel, write

NAME = "作業負荷"


def _run(encoding: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """The real command under a console of that encoding."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "200"}
    program = "from codesign.cli._entry import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *args], env=environment, capture_output=True, check=False,
        timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp437"])
def test_a_workload_named_in_cjk_is_shown_with_replaced_glyphs(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "c.parquet"
    characterization([gemm(1.0, 1e12, 1e9)], system="hgx-h100", workload=NAME).save(path)
    found = _run(encoding, "show", str(path))
    assert found.returncode == 0, found.stderr
    text = found.stdout.decode(encoding)
    assert NAME not in text
    assert "gemm" in text
    assert "?" in text or "\\u4f5c" in text
    assert b"Traceback" not in found.stderr


def test_what_is_written_under_such_a_console_is_utf_8(tmp_path: Path) -> None:
    trace, out = write(tmp_path, [kernel(0, 10, NAME)]), tmp_path / f"{NAME}.parquet"
    made = _run("cp1252", "characterize", "--from", str(trace), "--workload", NAME, "-o", str(out))
    assert made.returncode == 0, made.stderr
    shown = _run("utf-8", "show", str(out))
    assert NAME in shown.stdout.decode("utf-8")


def test_reports_are_utf_8_whatever_the_console(tmp_path: Path) -> None:
    """Rendered in a process whose own encoding is not UTF-8."""
    recs = short()
    named = replace(recs.workloads[0], title=NAME)
    saved = tmp_path / "r.json"
    save_recommendations(replace(recs, title=NAME, workloads=(named, *recs.workloads[1:])), saved)
    program = (
        "import sys; from codesign.recommend.jsonfile import load_recommendations; "
        "from codesign.report import render; from pathlib import Path; "
        "r = load_recommendations(sys.argv[1]); "
        "[render(r, Path(p)) for p in sys.argv[2:]]; print(r.title)"
    )
    outputs = [tmp_path / f"out.{kind}" for kind in ("md", "html", "json")]
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252:replace", "PYTHONUTF8": "0",
                   "LC_ALL": "C"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program, str(saved), *map(str, outputs)], env=environment,
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for path in outputs:
        assert NAME in path.read_bytes().decode("utf-8")
