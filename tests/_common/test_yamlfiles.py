import pytest

from codesign._common.errors import DataError
from codesign._common.yamlfiles import MAX_YAML_BYTES, load_yaml


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\na: 2\n", "twice"),
        ("a: &x [1]\nb: *x\n", "alias"),
        ("a: !!python/object/apply:os.system ['true']\n", "python/object"),
        ("[1, 2]\n", "mapping"),
        ("", "mapping"),
        ("a: [1\n", "not valid YAML"),
        ("a: \x01\n", "not valid YAML"),
        ("a: " + "[" * 5000 + "\n", "not valid YAML"),
        ("a: 2024-99-99\n", "not valid YAML"),
    ],
)
def test_what_is_refused(tmp_path, text, reason):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=reason) as caught:
        load_yaml(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_line_of_the_fault_is_named(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\nb: 2\na: 3\n")
    with pytest.raises(DataError, match=r"x\.yaml:3: "):
        load_yaml(path)


def test_binary_missing_and_huge_files(tmp_path):
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x80PAR1")
    huge = tmp_path / "h.yaml"
    huge.write_bytes(b"#" * (MAX_YAML_BYTES + 1))
    for path in (binary, huge, tmp_path / "gone.yaml", tmp_path):
        with pytest.raises(DataError, match=path.name):
            load_yaml(path)


def test_plain_values(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: {b: 1, c: [2.5, x]}\nd: null\n")
    assert load_yaml(path) == {"a": {"b": 1, "c": [2.5, "x"]}, "d": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 010\n", "ambiguous"),  # eight to YAML 1.1, ten to its reader
        ("a: 1:30\n", "ambiguous"),  # ninety
        ('a: "x\\ud800"\n', "surrogate|Unicode"),
        ("? [a, b]\n: 1\n", "plain text"),
        ("a: " + "9" * 5000 + "\n", "not valid YAML"),
    ],
)
def test_values_that_do_not_mean_what_they_look_like_are_refused(tmp_path, text, said):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=said) as caught:
        load_yaml(path)
    assert len(str(caught.value)) < 400


def test_plain_numbers_stay_numbers(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 0\nb: -7\nc: 1_000\nd: 0x10\n")
    assert load_yaml(path) == {"a": 0, "b": -7, "c": 1000, "d": 16}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e3", 1000.0), ("1.5e9", 1.5e9), ("1e-05", 1e-5), ("-2E+2", -200.0), (".5e1", 5.0),
     ('"1e3"', "1e3"), ("1e3x", "1e3x"), ("e3", "e3"), ("12", 12)],
)  # fmt: skip
def test_an_exponent_is_a_number_as_people_write_it(tmp_path, text: str, value: object) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"key: {text}\n")
    found = load_yaml(path)["key"]
    assert found == value
    assert type(found) is type(value)
