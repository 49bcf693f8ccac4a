"""The kernel tables are found without importing them, or missed with the way to get them."""

import importlib.util
import subprocess
import sys

import pytest

from codesign._common.errors import UsageError
from codesign.sources.perfdb import PerfDB
from codesign.sources.perfdb._catalog import version_key


def test_a_missing_extra_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"pip install 'codesign\[perfdb\]'") as caught:
        PerfDB()
    assert "\n" not in str(caught.value)


@pytest.mark.perfdb
def test_the_package_is_found_but_not_imported(folder):
    code = (
        "import sys\nfrom codesign.sources.perfdb import PerfDB\ndb = PerfDB()\n"
        "db.training_ops('h100-sxm', 'collective')\n"
        "print('aiconfigurator_core' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_versions_are_ordered_as_numbers_not_text():
    ordered = ["1.0.0", "1.3.0rc9", "1.3.0rc20", "1.3.0", "1.3.0.post1", "1.10.0"]
    assert sorted(ordered, key=version_key) == ordered
