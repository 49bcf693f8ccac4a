"""One exception tree; each class carries the exit code that the command line returns."""

from __future__ import annotations

from codesign._common.text import quoted


class CodesignError(Exception):
    """Any failure that is reported to the user as one line. Exit code 1."""

    exit_code = 1


class UsageError(CodesignError):
    """The request itself is wrong: an unknown name, an impossible lever. Exit code 2."""

    exit_code = 2


class DataError(CodesignError):
    """A file is unreadable, malformed or out of contract. Exit code 3."""

    exit_code = 3


class InsufficientDataError(CodesignError):
    """The data are sound but too few, so the tool abstains. Exit code 4."""

    exit_code = 4


class CheckFailedError(CodesignError):
    """A check that the user asked for did not hold. Exit code 5."""

    exit_code = 5


def one_of(what: str, got: object, allowed: list[str] | tuple[str, ...]) -> str:
    """Sentence for a look-up that failed: what was asked, what comes near, what exists."""
    known = ", ".join(sorted(set(allowed)))
    return f"unknown {what} {quoted(got)}{did_you_mean(got, allowed)}; known: {known}"


def did_you_mean(got: object, allowed: list[str] | tuple[str, ...]) -> str:
    """`` (did you mean ...?)`` with what comes near, or nothing."""
    near = _near(str(got), allowed)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _near(text: str, allowed: list[str] | tuple[str, ...]) -> list[str]:
    """At most three names that ``text`` begins, or resembles."""
    from difflib import get_close_matches

    if not 2 <= len(text) <= 80:
        return []
    begun = sorted({name for name in allowed if name.startswith(text.lower())})
    return (begun or get_close_matches(text.lower(), allowed, n=3))[:3]
