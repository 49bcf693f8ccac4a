"""The pipeline as `make` plans it: nothing is run, only what would be run is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ROOT / "hwspecs" / "systems"
GPUS = ROOT / "hwspecs" / "gpus"

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / "Makefile").is_file(), reason="needs make"
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of the user's own: portfolio, recipe, system and the GPU beside it."""
    folder = tmp_path / "own"
    folder.mkdir()
    system = (SYSTEMS / "hgx-h100.yaml").read_text()
    system = system.replace("gpu: h100-sxm\n", 'gpu: "part.yaml"  # beside this file\n', 1)
    (folder / "box.yaml").write_text(system)
    shutil.copy(GPUS / "h100-sxm.yaml", folder / "part.yaml")
    shutil.copy(ROOT / "reports" / "workloads" / "llama-3.1-8b-sft.yaml", folder / "ours.yaml")
    (folder / "run.parquet").write_bytes(b"")
    (folder / "fleet.yaml").write_text(
        "title: 'the recipe: of ours'\nbaseline: box.yaml   # ours\nworkloads:\n"
        "  # - recipe: left-out\n"
        "  - {recipe: ours.yaml, weight: 1}\n"
        "  - weight: 1\n    recipe: 'llama-3.1-70b-decode-b16'\n"
        "  - {weight: 2, characterization: run.parquet}\n"
    )
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / ".installed").touch()
    return folder


def make(
    folder: Path, *arguments: str, dry: bool = True
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    there = folder.parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", *(["-n"] if dry else []), f"VENV={there}/venv", f"BUILD={there}/build",
         f"OUT={there}/out", *arguments],
        capture_output=True, check=False, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip


def plan(folder: Path, *arguments: str) -> list[list[str]]:
    """Commands of codesign that would run, as words."""
    result = make(folder, *arguments)
    assert result.returncode == 0, result.stderr
    joined = result.stdout.replace("\\\n", " ")
    return [line.split() for line in joined.splitlines() if "/bin/codesign" in line]


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_every_command_that_writes_may_overwrite(own: Path) -> None:
    commands = plan(own, "report")
    assert {words[1] for words in commands} == {"characterize", "fit", "backtest", "recommend"}
    assert all("--force" in words for words in commands)


@pytest.mark.parametrize("given", [True, False])
def test_a_system_file_is_a_baseline(own: Path, given: bool) -> None:
    system = [f"SYSTEM={own}/box.yaml"] if given else []
    commands = plan(own, "report", f"PORTFOLIO={own}/fleet.yaml", *system)
    made = [words for words in commands if words[1] == "characterize"]
    (ranked,) = [words for words in commands if words[1] == "recommend"]
    assert {Path(option(words, "-o")).name for words in made} == {
        "ours.parquet", "llama-3.1-70b-decode-b16.parquet"
    }  # fmt: skip
    assert {option(words, "--recipe") for words in made} == {
        f"{own}/ours.yaml", "llama-3.1-70b-decode-b16"
    }  # fmt: skip
    for words in [*made, ranked]:
        assert option(words, "--system") == f"{own}/box.yaml"
    (folder,) = {Path(option(words, "-o")).parent for words in made}
    assert Path(option(ranked, "--characterizations")) == folder
    # One folder of its own under BUILD, whatever the path of the system.
    assert folder.parent == own.parent / "build" / "characterizations"
    assert folder.suffix == ""


def test_systems_of_one_name_do_not_share_a_folder(own: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(own / "box.yaml", tmp_path / "other")
    shutil.copy(own / "part.yaml", tmp_path / "other")
    folders = {
        option(plan(own, "characterize", f"SYSTEM={path}/box.yaml")[0], "-o")
        for path in (own, tmp_path / "other")
    }
    assert len(folders) == 2


def _done(own: Path, *arguments: str) -> None:
    """Leave what a run of `make` leaves: every output, newer than all that it came from."""
    now = time.time()
    for words in plan(own, *arguments):
        for place, word in enumerate(words):
            if word == "-o":
                path = Path(words[place + 1])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                # The report is made last.
                os.utime(path, (now + 60, now + 60 + 60 * (words[1] == "recommend")))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("RECOMMEND_FLAGS=--rank-by area", {"recommend"}),
        ("PORTFOLIO=decode", {"characterize", "recommend"}),
        ("FIT_FLAGS=--exclude 'h200-sxm'", {"fit", "recommend"}),
        ("BACKTEST_FLAGS=", {"backtest", "recommend"}),
        ("CHARACTERIZE_FLAGS=--allow-extrapolation", {"characterize", "recommend"}),
    ],
)
def test_other_options_are_not_up_to_date(own: Path, changed: str, expected: set[str]) -> None:
    arguments = ["report", f"PORTFOLIO={own}/fleet.yaml"]
    _done(own, *arguments)
    for path in own.parent.rglob(".*options"):
        os.utime(path, (0, 0))
    plan(own, *arguments, changed)
    # What it remembers anew counts as newer than the outputs, as after a real run.
    later = time.time() + 300
    for path in own.parent.rglob(".*options"):
        if path.stat().st_mtime > 0:
            os.utime(path, (later, later))
    assert {words[1] for words in plan(own, *arguments, changed)} == expected


@pytest.mark.parametrize(
    ("touched", "expected"),
    [
        (None, set()),
        ("part.yaml", {"characterize", "recommend"}),
        ("box.yaml", {"characterize", "recommend"}),
        ("run.parquet", {"recommend"}),
        ("fleet.yaml", {"recommend"}),
    ],
)
def test_only_what_depends_on_a_file_is_made_again(
    own: Path, touched: str | None, expected: set[str]
) -> None:
    arguments = ["report", f"PORTFOLIO={own}/fleet.yaml"]
    _done(own, *arguments)
    if touched:
        later = time.time() + 300
        os.utime(own / touched, (later, later))
    assert {words[1] for words in plan(own, *arguments)} == expected


@pytest.mark.parametrize("writes", [False, True])
def test_a_step_that_fails_leaves_the_report_and_is_run_again(own: Path, writes: bool) -> None:
    arguments = ["report", f"PORTFOLIO={own}/fleet.yaml"]
    _done(own, *arguments)
    past = time.time() - 300
    # All but the environment: a checkout younger than its mark would be installed for real.
    for path in set(own.parent.rglob("*")) - {own.parent / "venv" / ".installed"}:
        os.utime(path, (past, past))
    reports = [own.parent / "out" / n for n in ("index.html", "report.md", "recommendations.json")]
    for path in reports:
        os.utime(path, (past - 60, past - 60))
    command = own.parent / "venv" / "bin" / "codesign"
    command.parent.mkdir()
    # Two files of one tick of the file system's clock are of one age to make.
    wrote = f"touch {own.parent}/out/*.*; sleep 0.1; " if writes else ""
    command.write_text(
        f"#!/bin/sh\n[ $1 = recommend ] && {{ {wrote}exit 5; }}\n"
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && touch "$2"; shift; done\n'
    )
    command.chmod(0o755)
    result = make(own, *arguments, dry=False)
    assert "Error 5" in result.stderr
    assert all(path.exists() for path in reports)
    # What the check refused is not up to date, however new its files are.
    assert [words[1] for words in plan(own, *arguments)] == ["recommend"]


@pytest.mark.parametrize("argument", ["SYSTEM=none.yaml", "PORTFOLIO=none.yaml", "PORTFOLIO=none"])
def test_what_is_not_there_stops_before_any_work(own: Path, argument: str) -> None:
    result = make(own, "report", argument)
    assert result.returncode != 0
    assert result.stdout.strip() == ""
    assert argument in result.stderr
    assert "no such" in result.stderr
