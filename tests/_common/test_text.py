from hypothesis import given
from hypothesis import strategies as st

from codesign._common.text import encodable, middle_cut, printable, quoted


@given(st.text(st.characters()))
def test_printable_text_is_one_line_without_controls(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(c) < 32 or ord(c) == 127 for c in shown)
    assert printable(shown) == shown


@given(st.text(), st.integers(10, 50))
def test_a_cut_text_keeps_its_ends_and_its_bound(text: str, width: int) -> None:
    cut = middle_cut(text, width)
    assert len(cut) <= width
    assert cut[:3] == text[:3]
    assert cut[-3:] == text[-3:]


def test_any_value_is_quoted_in_few_characters() -> None:
    for value in ("x" * 10**6, 10**5000, list(range(10**5)), None, float("nan")):
        assert len(quoted(value)) <= 80
    assert quoted("700 W") == "'700 W'"


def test_only_what_cannot_be_encoded_is_replaced() -> None:
    assert encodable("a作\udcff") == "a作?"
