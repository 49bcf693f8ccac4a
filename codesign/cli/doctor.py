"""`codesign doctor`: what is installed, which GPU, what to do next."""

from __future__ import annotations

import click

from codesign._common.text import printable


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Say what is installed, which GPU there is, and what to do next.

    \b
    Example:
      codesign doctor
    """
    report = _inspect()
    if as_json:
        import json

        click.echo(json.dumps(report, indent=2, sort_keys=True))
        return
    for section in ("software", "data", "gpus"):
        click.echo(section)
        for name, value in report[section].items():
            click.echo(printable(f"  {name:<22} {value}"))
    click.echo("next")
    for line in report["next"].values():
        click.echo(f"  {line}")


def _inspect() -> dict[str, dict[str, str]]:
    software = {name: _version(name) for name in _PACKAGES}
    data = _data()
    gpus = _gpus()
    return {"software": software, "data": data, "gpus": gpus, "next": _next(software, gpus)}


_PACKAGES = (
    "codesign", "numpy", "pandas", "scipy", "statsmodels", "pyarrow", "aiconfigurator-core",
    "torch", "nvidia-ml-py", "weasyprint",
)  # fmt: skip


def _version(package: str) -> str:
    """Version by metadata: nothing is imported, least of all torch."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _data() -> dict[str, str]:
    from codesign._common.files import data_dir

    return {kind: str(data_dir(kind)) for kind in ("hwspecs", "reports")}


def _gpus() -> dict[str, str]:
    """Device name by index, as the driver's own tool reports it."""
    import shutil
    import subprocess

    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {"none": "no NVIDIA driver found (nvidia-smi is not on the PATH)"}
    try:
        listing = subprocess.run(  # noqa: S603 - a fixed command line
            [tool, "--query-gpu=index,name", "--format=csv,noheader"],
            capture_output=True, text=True, errors="replace", timeout=20, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return {"none": f"nvidia-smi failed: {error}"}
    names = [line.split(", ", 1) for line in listing.stdout.splitlines() if ", " in line]
    return {index: f"{name} -> {_spec_name(name)}" for index, name in names}


def _spec_name(device: str) -> str:
    from codesign._common.errors import CodesignError
    from codesign.hardware import gpu_of_device

    try:
        return gpu_of_device(device).name
    except CodesignError:
        return "not in the hardware library; describe it in a YAML file and pass --system"


def _next(software: dict[str, str], gpus: dict[str, str]) -> dict[str, str]:
    steps = {}
    if software["aiconfigurator-core"] == "not installed":
        steps["perfdb"] = (
            "pip install 'codesign[perfdb]'   # measured kernels, for recipes and fit; "
            "in a checkout '.[perfdb]'"
        )
    else:
        steps["recipe"] = "codesign characterize --list     # workloads that can be composed"
    if "none" not in gpus and software["torch"] == "not installed":
        steps["live"] = "pip install 'codesign[live]'     # or run inside a PyTorch container"
    steps["trace"] = "codesign characterize --from TRACE.json.gz -o run.parquet"
    return steps
