"""Where the measured kernel tables are installed, and as which version."""

from __future__ import annotations

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from codesign._common.errors import DataError, UsageError

PACKAGE = "aiconfigurator_core"
DISTRIBUTION = "aiconfigurator-core"
_MISSING = (
    "the measured kernel tables are not installed; run: pip install 'codesign[perfdb]' "
    "(in a checkout: '.[perfdb]')"
)


def locate() -> tuple[Path, str]:
    """Folder of the tables and the version of their distribution.

    The package is found, never imported: its ``__init__`` loads native code that
    is no use here. Raises UsageError with the install command if it is missing.
    """
    try:
        spec = importlib.util.find_spec(PACKAGE)
        release = version(DISTRIBUTION)
    except (ImportError, ValueError, PackageNotFoundError):
        raise UsageError(_MISSING) from None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(_MISSING)
    root = Path(spec.submodule_search_locations[0]) / "systems" / "data"
    if not root.is_dir():
        raise DataError(
            f"{root}: no such folder in {DISTRIBUTION} {release}; "
            "reinstall it: pip install --force-reinstall 'codesign[perfdb]'"
        )
    return root, release
