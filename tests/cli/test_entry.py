"""The installed command before the command line is loaded."""

from __future__ import annotations

import importlib.metadata
import signal
import subprocess
import sys

import pytest

from codesign._common.errors import UsageError

# The module that holds the command line sends the signal itself: in the middle of its own import.
LOADING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{before})
class Loading:
    def find_spec(self, name, path=None, target=None):
        if name == "codesign.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Loading())
sys.argv = ["codesign", "--version"]
from codesign.cli._entry import main
main()
"""


def loading(before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOADING.format(before=before)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_ctrl_c_while_the_command_loads_ends_it_without_a_traceback() -> None:
    result = loading("default_int_handler")
    assert result.returncode == -signal.SIGINT
    assert (result.stdout, result.stderr) == ("", "")


def test_a_background_job_that_takes_no_ctrl_c_goes_on() -> None:
    result = loading("SIG_IGN")
    assert result.returncode == 0, result.stderr
    assert importlib.metadata.version("codesign") in result.stdout


def test_what_comes_before_the_signal_is_looked_at_is_little() -> None:
    code = "import codesign.cli._entry, sys; print(sorted({'typing', 'click'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_after_loading_ctrl_c_is_one_line_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from codesign.cli import _entry, main

    seen: list[object] = []
    monkeypatch.setattr(main, "main", lambda: seen.append(signal.getsignal(signal.SIGINT)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _entry.main()
        assert seen == [signal.default_int_handler]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("found", "fits"),
    [
        ("2.4.1", False),
        ("1.13.0", False),
        ("2.5.0a0+e000cf0ad9.nv24.10", True),
        ("2.13.0+cpu", True),
        ("10.0", True),
        ("git1234", True),
    ],
)
def test_a_pytorch_that_is_too_old_is_said(
    monkeypatch: pytest.MonkeyPatch, found: str, fits: bool
) -> None:
    from codesign.cli._live import need_torch

    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr("importlib.metadata.version", lambda _: found)
    if fits:
        need_torch()
    else:
        with pytest.raises(UsageError, match=r"2\.5 or newer"):
            need_torch()
