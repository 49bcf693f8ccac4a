"""The public functions that take names and paths where the layers take records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.projection import DEFAULT_DRAWS
from codesign.projection import project as project_systems
from codesign.projection.projector import base_system

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.projection import Projection
    from codesign.recommend.schema import Recommendations
    from codesign.sensitivity import SensitivityModel
    from codesign.workload.characterization import Characterization


def fit(
    training: Any = None, exclude: Sequence[str] = (), *, seed: int = 0, **options: Any
) -> SensitivityModel:
    """Fit the sensitivity model, never reading a GPU in ``exclude``.

    ``training``: a kernel database, by default the installed measured kernels (extra
    ``perfdb``; UsageError if it is missing). ``options`` are those of `sensitivity.fit`.
    """
    from codesign.sensitivity import fit as fit_tables

    if training is None:
        from codesign.sources.perfdb import PerfDB

        training = PerfDB()
    return fit_tables(training, exclude, seed, **options)


def project(
    char: Characterization,
    model: SensitivityModel,
    candidates: Sequence[System | str] | System | str,
    draws: int | Any = DEFAULT_DRAWS,
    *,
    seed: int = 0,
    base: System | str | None = None,
) -> Projection:
    """Project ``char`` onto candidates: systems, their names, or levers (``sm_count=+10%``).

    Several levers of one candidate are joined by commas: ``hbm_bandwidth=x2,sm_clock=+10%``.
    Raises UsageError for an unknown system, an impossible lever or an unknown base.
    """
    from codesign.hardware import load_system

    start = base_system(char, load_system(base) if isinstance(base, str) else base)
    one = [candidates] if not isinstance(candidates, Sequence | str) else candidates
    several: Sequence[System | str] = [one] if isinstance(one, str) else one
    systems = [candidate_system(c, start) if isinstance(c, str) else c for c in several]
    return project_systems(char, model, systems, draws, seed=seed, base=start)


def candidate_system(text: str, base: System) -> System:
    """The system that a name or a comma-separated list of levers on ``base`` means."""
    from codesign.hardware import load_system
    from codesign.hardware.lever_specs import NAMES
    from codesign.hardware.levers import changed_system

    if "=" not in text and text not in NAMES:
        return load_system(text)
    return changed_system(base, text)


def render(recommendations: Recommendations, path: str | Path) -> None:
    """Write a report; the extension of ``path`` chooses the format."""
    from codesign.report import render as render_file

    render_file(recommendations, Path(path))
