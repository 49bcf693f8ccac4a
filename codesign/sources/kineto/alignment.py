"""The same collectives on several ranks: who waited for whom, and how far the clocks differ.

A collective cannot end before its last rank has arrived, and ends on all ranks at about
the same time. So of the time that it takes on a rank, what exceeds its shortest time on
any rank is waiting; the rest is transfer. Only durations are compared, and clocks may differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from codesign.sources.kineto._times import Ints

# Ends of one collective differ between ranks by this much at most: the tails of real
# all-to-alls differ by up to 1 % of their time, the clocks of one node by microseconds.
_TOLERANCE_NS = 50_000
_TOLERANCE_SHARE = 0.02
_TOGETHER_NS = 1000
_VOTERS = 300
_Offsets = dict[tuple[int, int], tuple[int, int]]
"""(one, two) -> (clock of two less that of one, collectives that agree on it)."""
_ENOUGH = 0.5
"""Share of the collectives of two ranks whose ends have to agree for a match to count."""


class Collectives(msgspec.Struct):
    """Collectives of one device in order of their start; times in ns of that rank's clock."""

    start: list[int]
    end: list[int]
    key: list[int]
    """Index into ``keys``."""
    keys: list[str]
    """Kind, group and, where steps are named, step: only equal ones may be one collective."""
    row: list[int]
    """Row of the ops table, -1 if none."""
    inside: list[bool]
    """Whether it starts within a step."""
    group_size: list[int]
    """Ranks that take part, 0 where not recorded."""


@dataclass(frozen=True)
class Alignment:
    """What matching found out about one device; one entry per collective of it."""

    wait_ns: Ints
    """Waiting for the last known rank; -1 where the collective was found on no other rank."""
    last: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether this rank arrived last."""
    known: Ints
    """Ranks on which the collective was found."""
    offset_ns: int | None
    """This clock less that of the first device; None if no collectives connect them."""


def align(devices: Sequence[Collectives]) -> list[Alignment]:
    """Match the collectives of several devices with each other.

    Collectives are matched by kind, group and step, then by their ends, up to one
    difference of clocks per pair of ranks: captures may begin or drop events anywhere.
    """
    found = [_Device(d) for d in devices]
    members: dict[str, list[int]] = defaultdict(list)
    for i, device in enumerate(found):
        for key in device.groups:
            members[key].append(i)
    offsets: _Offsets = {}
    for key, who in members.items():
        for i in who[1:]:
            if (who[0], i) not in offsets:
                offsets[who[0], i] = _clock_offset(found[who[0]], found[i])
        if len(who) > 1:
            _match_group(found, key, who, offsets)
    clocks = _clocks(len(found), offsets)
    return [Alignment(d.wait, d.last, d.known, c) for d, c in zip(found, clocks, strict=True)]


class _Device:
    """Columns of one device as arrays, and where its groups stand in them."""

    def __init__(self, events: Collectives) -> None:
        self.start = np.array(events.start, dtype=np.int64)
        self.end = np.array(events.end, dtype=np.int64)
        n = len(self.start)
        self.wait = np.full(n, -1, dtype=np.int64)
        self.last = np.zeros(n, dtype=bool)
        self.known = np.ones(n, dtype=np.int64)
        self.groups: dict[str, Ints] = {}
        codes = np.array(events.key, dtype=np.int64)
        for code, key in enumerate(events.keys):
            rows = np.flatnonzero(codes == code)
            if rows.size:
                self.groups[key] = rows[np.argsort(self.end[rows], kind="stable")]


def _match_group(
    devices: list[_Device], key: str, who: list[int], offsets: _Offsets
) -> None:  # fmt: skip
    """Match the collectives of one key over its members, each against the first one."""
    lead = devices[who[0]]
    rows = lead.groups[key]
    # Per collective of the first member: the row on each other one, -1 if it is not there.
    table = np.full((len(rows), len(who)), -1, dtype=np.int64)
    table[:, 0] = rows
    for column, i in enumerate(who[1:], start=1):
        offset, votes = offsets[who[0], i]
        if votes:
            mine = devices[i].groups[key]
            pairs = _match(lead, rows, devices[i], mine, offset)
            table[pairs[0], column] = mine[pairs[1]]
    there = table >= 0
    shared = there.sum(axis=1) > 1
    length = np.full(table.shape, np.iinfo(np.int64).max, dtype=np.int64)
    for column, i in enumerate(who):
        at, device = table[:, column], devices[i]
        use = there[:, column]
        length[use, column] = (device.end - device.start)[at[use]]
    shortest = length.min(axis=1)
    # Of ranks that arrive together, none is last.
    together = (length < (shortest + _TOGETHER_NS)[:, None]).sum(axis=1) > 1
    last = np.where(together, -1, length.argmin(axis=1))
    for column, i in enumerate(who):
        use = there[:, column] & shared
        at, device = table[use, column], devices[i]
        device.wait[at] = (length[:, column] - shortest)[use]
        device.last[at] = last[use] == column
        device.known[at] = there.sum(axis=1)[use]


def _clock_offset(one: _Device, two: _Device) -> tuple[int, int]:
    """Clock of ``two`` less that of ``one``, and how many collectives agree; 0 if too few do."""
    keys = [key for key in one.groups if key in two.groups]
    counts = [(len(one.groups[k]), len(two.groups[k])) for k in keys]
    ordered = [k for k, (n, m) in zip(keys, counts, strict=True) if n == m]
    offset = 0
    for attempt in ("in order", "by vote"):
        if attempt == "in order":
            if not ordered:
                continue
            a = np.concatenate([one.end[one.groups[k]] for k in ordered])
            b = np.concatenate([two.end[two.groups[k]] for k in ordered])
            offset = int(np.median(b - a))
        else:
            offset = _voted(one, two, keys)
        agree = sum(
            _match(one, one.groups[k], two, two.groups[k], offset).shape[1] for k in keys
        )  # fmt: skip
        if agree >= (0.9 if attempt == "in order" else _ENOUGH) * sum(map(min, counts)):
            return offset, agree
    return offset, 0


def _match(one: _Device, rows: Ints, two: _Device, mine: Ints, offset: int) -> Ints:
    """Places in ``rows`` and in ``mine`` of collectives that end together, as two rows."""
    a, b = one.end[rows] + offset, two.end[mine]
    place = np.searchsorted(b, a)
    left = np.clip(place - 1, 0, len(b) - 1)
    right = np.clip(place, 0, len(b) - 1)
    nearest = np.where(np.abs(b[left] - a) <= np.abs(b[right] - a), left, right)
    apart = np.abs(b[nearest] - a)
    first = np.flatnonzero(apart <= np.maximum(_slack(one, rows), _slack(two, mine)[nearest]))
    # Each collective is one of the other rank's at most: the closest one's.
    first = first[np.lexsort((apart[first], nearest[first]))]
    _, unique = np.unique(nearest[first], return_index=True)
    first = np.sort(first[unique])
    return np.stack([first, nearest[first]])


def _slack(device: _Device, rows: Ints) -> Ints:
    length = device.end[rows] - device.start[rows]
    slack: Ints = np.maximum(_TOLERANCE_NS, np.rint(length * _TOLERANCE_SHARE).astype(np.int64))
    return slack


def _voted(one: _Device, two: _Device, keys: Sequence[str]) -> int:
    """The difference of clocks on which most pairs of ends agree."""
    differences = []
    widths = [_TOLERANCE_NS]
    for key in keys:
        rows, mine = one.groups[key], two.groups[key]
        step_a, step_b = -(-len(rows) // _VOTERS), -(-len(mine) // (_VOTERS * 20))
        pairs = two.end[mine][::step_b, None] - one.end[rows][None, ::step_a]
        differences.append(pairs.ravel())
        widths.append(int(np.median(_slack(one, rows))))
    found = np.sort(np.concatenate(differences))
    reach = np.searchsorted(found, found + 2 * max(widths), side="right")
    votes = reach - np.arange(len(found))
    most = np.flatnonzero(votes == votes.max())
    # Among equals the smallest: clocks are more likely near each other than apart.
    return min((int(np.median(found[i : reach[i]])) for i in most[:50]), key=abs)


def _clocks(count: int, offsets: _Offsets) -> list[int | None]:
    """Each clock less the first one's, over the pairs with most matches first."""
    clocks: list[int | None] = [None] * count
    if not count:
        return clocks
    clocks[0] = 0
    edges = sorted(
        ((n, pair, offset) for pair, (offset, n) in offsets.items() if n), reverse=True
    )  # fmt: skip
    while True:
        for _, (one, two), offset in edges:
            known, other = clocks[one], clocks[two]
            if known is not None and other is None:
                clocks[two] = known + offset
                break
            if known is None and other is not None:
                clocks[one] = other - offset
                break
        else:
            return clocks
