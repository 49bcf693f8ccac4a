"""The wheel, installed into a fresh environment, brings its data and its command."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def check_output(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(
        [str(c) for c in command], capture_output=True, check=False, text=True, cwd=cwd
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_wheel_in_a_fresh_environment(tmp_path: Path) -> None:
    check_output(
        sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT, cwd=tmp_path
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    check_output(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    codesign = tmp_path / "venv" / "bin" / "codesign"

    assert "characterize" in check_output(codesign, "--help", cwd=tmp_path)
    # Data come from inside the wheel: the checkout is not on the path here.
    assert "h100-sxm" in check_output(codesign, "hw", "list", cwd=tmp_path)
    check_output(codesign, "hw", "check", cwd=tmp_path)
    assert "llama-3.1-8b-sft" in check_output(codesign, "characterize", "--list", cwd=tmp_path)
    where = check_output(codesign, "doctor", cwd=tmp_path)
    assert str(tmp_path) in where
    assert str(ROOT) not in where
    # No extra was asked for, so none came: torch least of all.
    packages = check_output(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path).lower()
    assert "torch" not in packages
    assert "aiconfigurator" not in packages

    # As in a container that brings its own build of torch: asked for or not, it stays.
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    info = site / "torch-0.dist-info"
    info.mkdir()
    (info / "INSTALLER").write_text("container\n")
    (info / "RECORD").write_text("")
    # An early build of the oldest that codesign works with, and a later one.
    for own in ("2.5.0a0+e000cf0ad9.nv24.10", "2.9.0a0+50eac811a6.nv25.9"):
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {own}\n")
        check_output(python, "-m", "pip", "install", "--quiet", f"{wheel}[live]", cwd=tmp_path)
        packages = check_output(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path)
        assert f"torch=={own}" in packages.lower().splitlines()
        assert "nvidia-ml-py" in packages.lower()
