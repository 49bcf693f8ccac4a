"""Whatever the bytes: a characterization or one clear error."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codesign._common.errors import CodesignError
from codesign.sources.xplane import read_xplane
from tests.sources.xplane.spaces import space
from tests.sources.xplane.test_read import gemm_program, gpu, step, tpu

SEEDS = [
    space(gemm_program(), gpu(("sm90_xmma_gemm_bf16", 0, 10, step("gemm.1", 1)))),
    space(tpu()),
]
QUIET = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(path, content, **options):
    path.write_bytes(content)
    try:
        char = read_xplane(path, **options)
    except CodesignError:
        return
    assert (char.ops["time_s"] >= 0).all()


@QUIET
@given(content=st.binary(min_size=1, max_size=400))
def test_any_bytes(tmp_path, content):
    survives(tmp_path / "a.xplane.pb", content)


@QUIET
@given(seed=st.sampled_from(SEEDS), place=st.integers(0, 10_000), change=st.binary(max_size=12),
       cut=st.booleans(), lenient=st.booleans())  # fmt: skip
def test_mutated_profiles(tmp_path, seed, place, change, cut, lenient):
    place %= len(seed)
    tail = b"" if cut else seed[place + len(change) :]
    survives(tmp_path / "a.xplane.pb", seed[:place] + change + tail, allow_truncated=lenient)


@pytest.mark.slow
def test_mutations_of_a_real_profile(tmp_path, shared_data):
    content = (shared_data / "xplane" / "tw003.xplane.pb").read_bytes()
    random.seed(7)
    for _ in range(30):
        changed = bytearray(content)
        for _ in range(random.randint(1, 20)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        survives(tmp_path / "a.xplane.pb", bytes(changed), allow_truncated=True)


def test_a_number_where_bytes_belong_costs_nothing(tmp_path):
    # Every field of the file's own message as a number: none may be taken for a place.
    content = b"".join(bytes([field << 3, 1]) for field in range(1, 16)) * 2000
    survives(tmp_path / "a.xplane.pb", content)
