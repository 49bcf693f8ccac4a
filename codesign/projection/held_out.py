"""Models fitted without some GPUs, kept in a folder: recipes and scores change, fits do not.

A file is found by a key of all that a fit depends on, so one of other code, tables,
specifications or libraries is never read; it is removed when its successor is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codesign._common.errors import DataError, UsageError
from codesign._common.files import code_hash
from codesign.hardware import system_of_gpu
from codesign.sensitivity.training import ROWS_PER_GPU

if TYPE_CHECKING:
    from codesign.sensitivity import SensitivityModel

SEED = 0
_CODE = ("_common", "hardware", "sensitivity", "sources/perfdb", "workload")
"""Parts of the package that a fit runs through."""
_LIBRARIES = ("codesign", "numpy", "pandas", "scipy")
_SHOWN = 2
"""GPUs left out that a line names; where there are more it names those fitted on."""

Fitter = Callable[[Any, tuple[str, ...]], Any]
"""(database, GPUs to train on) -> a model that has seen no other."""


class HeldOut:
    """Fits on a part of the GPUs, each once a run, and once for good where there is a folder."""

    def __init__(
        self, db: Any, folder: Path | None = None, *, tables: Any = None,
        stage: Callable[[str], None] = lambda _: None, fitter: Fitter | None = None,
    ) -> None:  # fmt: skip
        """``db`` is what models are fitted to, ``tables`` the `PerfDB` that it reads.

        ``stage`` is told, before each fit, what it is and how long it takes. Raises
        UsageError if ``folder`` is there and no folder.
        """
        if folder is not None and folder.exists() and not folder.is_dir():
            raise UsageError(f"--models {folder}: is a file; give the name of a folder")
        self._db, self._folder, self._stage = db, folder, stage
        self._tables = db if tables is None else tables
        self._fit = fitter
        self._known: dict[tuple[tuple[str, ...], str], SensitivityModel] = {}
        self.total = 0
        """Fits that the run is going to need, for the count that ``stage`` is told."""

    def model(self, gpus: Sequence[str], framework: str = "trtllm") -> SensitivityModel:
        """The model fitted to ``gpus`` alone."""
        asked = (tuple(gpus), framework)
        if asked not in self._known:
            self._known[asked] = self._read_or_fit(*asked)
        return self._known[asked]

    def _read_or_fit(self, gpus: tuple[str, ...], framework: str) -> SensitivityModel:
        count = len(self._known) + 1
        of = f" ({count} of {self.total})" if self.total > 1 else ""
        what = self._label(gpus)
        path = None
        if self._folder is not None:
            path = self._folder / f"{_slot(gpus, framework)}-{self._key(gpus, framework)}.json"
            kept = _read(path, gpus, framework)
            if kept is not None:
                self._stage(f"model fitted {what}{of}: kept in {self._folder}")
                return kept
        self._stage(f"fitting {what}{of}, about a minute")
        model = self._fitted(gpus, framework)
        if path is not None:
            model.save(path)
            for old in path.parent.glob(f"{_slot(gpus, framework)}-*.json"):
                if old != path:
                    old.unlink(missing_ok=True)
        return model

    def _fitted(self, gpus: tuple[str, ...], framework: str) -> SensitivityModel:
        if self._fit is not None:
            model: SensitivityModel = self._fit(self._db, gpus)
            return model
        from codesign.sensitivity import fit

        return fit(self._db, gpus=gpus, framework=framework, seed=SEED)

    def _label(self, gpus: tuple[str, ...]) -> str:
        left_out = [gpu for gpu in self._db.gpus() if gpu not in gpus]
        if 0 < len(left_out) <= _SHOWN:
            return f"without {' and '.join(left_out)}"
        return f"on {', '.join(gpus)}"

    def _key(self, gpus: tuple[str, ...], framework: str) -> str:
        """Hash of all that the fit depends on."""
        found = hashlib.sha256()
        for part in (
            framework, *gpus, str(ROWS_PER_GPU), str(SEED), *map(_release, _LIBRARIES),
            str(getattr(self._tables, "name", "")), code_hash(_CODE),
            *(repr(system_of_gpu(gpu)) for gpu in gpus), *self._sizes(),
        ):  # fmt: skip
            found.update(part.encode() + b"\0")
        return found.hexdigest()[:24]

    def _sizes(self) -> list[str]:
        """Every kernel table with its size: a release that was edited is another one."""
        root = getattr(self._tables, "root", None)
        paths = [] if root is None else sorted(root.rglob("*.parquet"))
        return [f"{path.relative_to(root)} {path.stat().st_size}" for path in paths]


def _slot(gpus: tuple[str, ...], framework: str) -> str:
    """What a file is of, whatever code and tables made it."""
    name = "\0".join((framework, *gpus)).encode()
    return f"{framework}-{hashlib.sha256(name).hexdigest()[:12]}"


def _read(path: Path, gpus: tuple[str, ...], framework: str) -> SensitivityModel | None:
    """The model kept at ``path``; None if there is none, or not of these GPUs."""
    from codesign.sensitivity import load_model

    if not path.is_file():
        return None
    try:
        model = load_model(path)
    except (DataError, OSError, msgspec.MsgspecError):
        return None
    fits = set(model.trained_on) <= set(gpus) and model.content.framework == framework
    return model if fits else None


def _release(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
