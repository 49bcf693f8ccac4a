"""Files: shipped data, whole-or-nothing writes, hashes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codesign._common.errors import DataError

_PACKAGE_DIR = Path(__file__).resolve().parent.parent


def data_dir(kind: str) -> Path:
    """Folder of shipped data, ``hwspecs`` or ``reports``.

    An installed wheel carries them inside the package; in a checkout they stand
    beside it, so that an editable install reads what the engineer edits.
    """
    for candidate in (_PACKAGE_DIR / "_data" / kind, _PACKAGE_DIR.parent / kind):
        if candidate.is_dir():
            return candidate
    raise DataError(f"the shipped folder {kind!r} is missing; reinstall codesign")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed onto it only if the block succeeds.

    Raises DataError (naming the path) if the folder cannot be written.
    """
    # Through a link to the file it names; a device or pipe must never be replaced.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no ordinary file"
        raise DataError(f"{path}: cannot write: is {kind}; give the name of a file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:20]}.", dir=target.parent)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot write here: {reason}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes private files; give the result the permissions of an ordinary one.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except OSError as error:
        raise DataError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``, wholly or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write ``content`` as UTF-8 to ``path``, wholly or not at all."""
    write_bytes(path, content.encode("utf-8", errors="replace"))


def require_ordinary(path: Path) -> None:
    """Raise DataError for what is there and no ordinary file, before it is opened.

    A pipe may wait for ever and has no second reading, a device may have no end. What is
    missing, or a folder, opening it says best.
    """
    try:
        odd = path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError):
        return
    if odd:
        raise DataError(
            f"{path}: cannot read: no ordinary file (a pipe or device); write it to a file first"
        )


def read_bytes(path: Path, limit_bytes: int | None = None) -> bytes:
    """Content of ``path``. Raises DataError with the reason in one line.

    With ``limit_bytes`` a larger file is refused, and so is what is no ordinary file
    and may have no end (a device, a pipe).
    """
    try:
        if limit_bytes is None:
            return path.read_bytes()
        require_ordinary(path)
        with path.open("rb") as stream:
            content = stream.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error
    if len(content) > limit_bytes:
        raise DataError(f"{path}: over {limit_bytes} bytes, expected at most that")
    return content


def sha256(path: Path) -> str:
    """Hex digest of a file's content, read in bounded memory."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
    return digest.hexdigest()


def code_hash(parts: Iterable[str], package: Path | None = None) -> str:
    """SHA-256 of the source files of some ``parts`` of the package, such as ``sources/perfdb``.

    What was made by other code has another hash. ``package`` is the folder of this package
    unless told otherwise.
    """
    root = Path(__file__).parents[1] if package is None else package
    found = hashlib.sha256()
    for part in parts:
        for path in sorted((root / part).rglob("*.py")):
            found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()
