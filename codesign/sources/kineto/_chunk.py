"""What the reader hands on: decoded events, and what it met on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from codesign.sources.kineto._scan import LIST, object_end, skip
from codesign.sources.kineto._typed import Groups


@dataclass
class Findings:
    """What the reader met on the way; ends up in the quality block."""

    events: int = 0
    repaired: int = 0
    dropped: int = 0
    duplicates: int = 0
    """Device events that stood in the file twice."""
    complete: bool = True
    lapses: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Chunk:
    """Decoded events and the text that they came from, a JSON list."""

    groups: Groups
    """By category as written, in file order."""
    text: bytes
    offset: int
    """Byte of the (unpacked) file that ``text[0]`` stands for, give or take repairs."""

    def offset_of(self, category: str, index: int) -> int:
        """Byte offset in the file of an event of ``groups``. Slow: for messages only."""
        position = 1
        seen = -1
        for event in LIST.decode(self.text):
            position = skip(self.text, position)
            seen += (event.cat or "") == category
            if seen == index:
                break
            position, _ = object_end(self.text, position)
        return self.offset + position
