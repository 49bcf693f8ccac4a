from typing import Literal

import msgspec
import pytest

from codesign._common.errors import DataError
from codesign._common.records import convert


class Part(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["big", "small"] | None = None
    size: int = 1


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[Part] = []
    named: dict[Literal["left", "right"], Part] = {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"parts": [{"kind": "huge"}]}, ["parts[", "kind", "'huge'", "allowed: big, small"]),
        ({"named": {"left": {"kind": 3}}}, ["named[...].kind", "int"]),
        ({"named": {"up": {}}}, ["named: ", "'up'", "allowed: left, right"]),
        ({"named": {"left": {"sise": 3}}}, ["`sise`", "allowed: kind, size"]),
        ({"part": []}, ["f.yaml: ", "`part`", "allowed: parts, named"]),
        ({"parts": [{"size": "3"}]}, ["size", "`int`", "`str`"]),
    ],
)
def test_errors_name_the_key_and_what_is_allowed(content: object, said: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        convert(content, Whole, "f.yaml")
    assert all(text in str(caught.value) for text in said), str(caught.value)


def test_good_content_is_converted() -> None:
    assert convert({"parts": [{"size": 3}]}, Whole, "f").parts == [Part(size=3)]
