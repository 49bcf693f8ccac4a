"""YAML from users: plain values only, bounded, nothing silently dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from codesign._common.errors import DataError
from codesign._common.files import read_bytes

MAX_YAML_BYTES = 4_000_000


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases (they can unfold without bound) or doubled keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None, None, "aliases (*name) are not allowed", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} stands here twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds.

    Raises DataError (file, line) for anything else, for aliases, doubled keys,
    tags that make objects, and files over ``MAX_YAML_BYTES``.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
    if size > MAX_YAML_BYTES:
        raise DataError(f"{path}: {size} bytes, expected at most {MAX_YAML_BYTES} of YAML")
    try:
        content = yaml.load(read_bytes(path), Loader=_Loader)  # noqa: S506 - derives SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataError(f"{path}{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or ["nested too deeply"])[0]
        raise DataError(f"{path}: not valid YAML: {reason}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a mapping of keys, got {type(content).__name__}")
    return content
