import pytest

from codesign._common import errors


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (errors.CodesignError, 1),
        (errors.UsageError, 2),
        (errors.DataError, 3),
        (errors.InsufficientDataError, 4),
        (errors.CheckFailedError, 5),
    ],
)
def test_exit_codes_are_those_of_the_design(cls, code):
    assert cls("x").exit_code == code
    assert isinstance(cls("x"), errors.CodesignError)


def test_a_failed_look_up_names_what_exists():
    message = errors.one_of("GPU", "h101", ["h200-sxm", "h100-sxm"])
    assert message == "unknown GPU 'h101'; known: h100-sxm, h200-sxm"
