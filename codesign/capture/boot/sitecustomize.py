"""Loaded by every Python process of a captured command, since its folder is on PYTHONPATH.

Must never break the process: whatever goes wrong here is said in one line and forgotten.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before site is done
_PACKAGE = "_codesign_capture"


def _shadowed() -> None:
    """Run the sitecustomize that this one stands in front of, as if it were alone."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _start() -> None:
    spec = importlib.util.spec_from_file_location(
        _PACKAGE,
        os.path.join(_HERE, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[_HERE],
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{_PACKAGE}.hook").install()


if __name__ == "sitecustomize":
    # Off the path: a user's module may bear the name of one of ours.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]  # noqa: PTH100
    _shadowed()
    if os.environ.get("CODESIGN_CAPTURE"):
        try:
            _start()
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            sys.stderr.write(f"codesign: not capturing in this process: {error}\n")
