"""Hardware-software co-design recommendations from measured LLM workloads.

    import codesign
    char = codesign.read("trace.json.gz")
    model = codesign.fit(exclude=["h200-sxm"])
    proj = codesign.project(char, model, ["hbm_bandwidth=+50%", "hgx-h200"])
    recs = codesign.recommend("default", model)
    codesign.render(recs, "report.html")

Nothing heavy is imported until a name is used. All of it is described in docs/api.md.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would be half of all that a command does first
if TYPE_CHECKING:
    from typing import Any

    from codesign import capture as capture
    from codesign import recommend as recommend
    from codesign._api import fit, project, render
    from codesign._common.errors import CodesignError
    from codesign.hardware import load_system
    from codesign.projection.experiments import load_experiments
    from codesign.sensitivity import load_model
    from codesign.sources import read
    from codesign.workload.characterization import Characterization

__all__ = [
    "Characterization", "CodesignError", "capture", "fit", "load_experiments", "load_model",
    "load_system", "project", "read", "recommend", "render",
]  # fmt: skip

_HOME = {
    "Characterization": "codesign.workload.characterization",
    "CodesignError": "codesign._common.errors",
    "fit": "codesign._api",
    "load_experiments": "codesign.projection.experiments",
    "load_model": "codesign.sensitivity",
    "load_system": "codesign.hardware",
    "project": "codesign._api",
    "read": "codesign.sources",
    "render": "codesign._api",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("capture", "recommend"):  # Packages that can be called.
        return importlib.import_module(f"codesign.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("codesign")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
