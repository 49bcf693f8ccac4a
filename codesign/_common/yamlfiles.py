"""YAML from users: plain values only, bounded, nothing silently dropped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

from codesign._common.errors import DataError
from codesign._common.files import read_bytes
from codesign._common.text import encodable, quoted

MAX_YAML_BYTES = 4_000_000


if TYPE_CHECKING or not yaml.__with_libyaml__:
    _Parser = yaml.SafeLoader
else:

    class _Parser(Composer, CParser, SafeConstructor, Resolver):
        """SafeLoader with libyaml's parser, several times as fast as the one in Python."""

        def __init__(self, stream: bytes) -> None:
            CParser.__init__(self, stream)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)


class _Loader(_Parser):
    """Loads plain values, without aliases (they can unfold without bound) or doubled keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None, None, "aliases (*name) are not allowed", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _error("a key must be plain text", key_node)
            if key_node.value in seen:
                raise _error(f"key {quoted(key_node.value)} stands here twice", key_node)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and encodable(value) != value:
            raise _error("half of a surrogate pair is no text", node)
        return value

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        # YAML 1.1 reads 010 as 8 and 1:30 as 90; nobody who writes a size means that.
        if _OLD_INTEGER.match(str(node.value)):
            raise _error(f"{quoted(node.value)} is ambiguous; write a plain whole number", node)
        return int(super().construct_yaml_int(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
# YAML 1.1 takes 1e-5 for text: it wants a point and a sign, which nobody remembers.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
_OLD_INTEGER = re.compile(r"[-+]?(0[0-7_]|.*:)")


def _error(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds.

    Raises DataError (file, line) for anything else, for aliases, doubled keys,
    tags that make objects, and files over ``MAX_YAML_BYTES``.
    """
    raw = read_bytes(path, MAX_YAML_BYTES)
    try:
        content = yaml.load(raw, Loader=_Loader)  # noqa: S506 - derives SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataError(f"{path}{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or ["nested too deeply"])[0]
        raise DataError(f"{path}: not valid YAML: {reason}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a mapping of keys, got {type(content).__name__}")
    return content
