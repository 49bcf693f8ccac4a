"""Files known by their first bytes, without loading what reads them."""

from __future__ import annotations

import re

# An XSpace begins with a plane: its length, its number if it has one, its name.
_XSPACE = re.compile(
    rb"\n[\x80-\xff]{0,9}[\x00-\x7f](\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x01-\x7f][/#A-Za-z]"
)
TAR_MARK, TAR_AT = b"ustar", 257
# PyTorch: {"schema": "1.0.1", ... in any order of keys; its nodes have control dependencies.
_EXECUTION_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{[^\[{]{0,2000}"schema"\s*:\s*"[^"]{1,60}"')
OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive", b"\x28\xb5\x2f\xfd": "zstd-compressed",
    b"BZh": "bzip2-compressed", b"\xfd7zXZ": "xz-compressed", b"SQLite format 3": "SQLite",
    b"PAR1": "Parquet", b"\xff\xfe": "UTF-16 text", b"\xfe\xff": "UTF-16 text",
}  # fmt: skip
"""What a file that is no trace may be, by its first bytes."""
_KINETO_JSON = re.compile(rb'"(schemaVersion|traceEvents|deviceProperties|displayTimeUnit)"')
# Chakra: the file's own message first, its schema as an attribute or its version as text.
_CHAKRA_SCHEMA = re.compile(rb"[\x01-\xff]{1,2}\x12.\x0a\x06schema", re.DOTALL)
_CHAKRA_VERSION = re.compile(rb"[\x01-\xff]{1,2}\x0a([\x03-\x14])([\d.]{3,20})")


def is_xspace(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is an XSpace."""
    return _XSPACE.match(head) is not None


def is_execution_trace(head: bytes) -> bool:
    """Whether a file that begins with ``head`` (unpacked) is one, or an archive of them."""
    if head[TAR_AT : TAR_AT + len(TAR_MARK)] == TAR_MARK or _CHAKRA_SCHEMA.match(head):
        return True
    if version := _CHAKRA_VERSION.match(head):
        return version[1][0] <= len(version[2])
    return _EXECUTION_JSON.match(head) is not None and _KINETO_JSON.search(head) is None
