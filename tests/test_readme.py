"""The README against the product: its commands parse, its targets and links exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from codesign.cli.main import cli

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def shell_lines() -> list[str]:
    """Each command of the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    lines = [part for block in blocks for line in block.splitlines() for part in line.split(";")]
    return [" ".join(shlex.split(line, comments=True)) for line in lines if line.strip()]


COMMANDS = [line for line in shell_lines() if line.startswith("codesign ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_has_the_options_that_it_is_shown_with(line: str) -> None:
    words = line.split()[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    # Raises for an unknown option, a missing value or a stray argument.
    command.make_context(command.name, words)


def test_make_targets_and_variables_are_the_makefile_s() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    for line in shell_lines():
        if line.startswith("make "):
            words = [w for w in line.split()[1:] if re.fullmatch(r"[a-z]+", w)]
            assert words[0] in targets, line
    defined = set(re.findall(r"^([A-Z_]+) *\?=", makefile, re.MULTILINE))
    named = set(re.findall(r"`([A-Z]+(?:_FLAGS)?)`", TEXT))
    assert named <= defined
    assert {name for name in defined if name.endswith("_FLAGS")} <= named | {"PYTEST_FLAGS"}


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_python_blocks_are_python() -> None:
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        compile(block, "README.md", "exec")


def test_the_gpus_named_as_measured_are_those_with_tables() -> None:
    pytest.importorskip("aiconfigurator_core")
    from codesign.sources.perfdb import PerfDB

    sentence = TEXT.partition("composed from\n  those: ")[2].partition("(`codesign hw list`)")[0]
    said = {"A100": "a100-80gb-sxm", "H100": "h100-sxm", "H200 SXM": "h200-sxm",
            "B200": "b200-sxm", "B300": "b300-sxm", "GB200": "gb200", "GB300": "gb300",
            "L40S": "l40s", "RTX PRO 6000 Server": "rtx-pro-6000-server"}  # fmt: skip
    named = re.split(r", | and |\n", sentence.strip().replace("\n  ", " "))
    assert {said[name.strip()] for name in named if name.strip()} == set(PerfDB().gpus())
