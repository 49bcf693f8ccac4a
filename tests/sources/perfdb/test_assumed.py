"""Assumed values as a reader of a characterization meets them."""

from __future__ import annotations

from codesign.sources.perfdb.assumed import ASSUMPTIONS, Assumption


def test_a_time_has_a_prefix_and_a_share_stays_a_number() -> None:
    assert str(Assumption(8.4e-6, "s a collective", "x")) == "8.40 µs a collective (x)"
    assert str(Assumption(0.8, "of a NIC's line rate", "x")) == "0.8 of a NIC's line rate (x)"


def test_no_shipped_value_is_printed_in_powers_of_ten() -> None:
    assert not [name for name, value in ASSUMPTIONS.items() if "e-" in str(value).split(" ")[0]]
