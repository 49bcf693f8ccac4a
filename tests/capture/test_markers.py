"""Which optimizer's step ends a step of the workload, on orders of calls written out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from codesign.capture.boot import markers, optimizers


class Optimizer:
    pass


def boundaries(order: Iterable[Optimizer], warmup: int = 3) -> list[int]:
    """Places in ``order`` that end a step, from the end of the warm-up on: it begins the first."""
    steps, count, found = optimizers.OptimizerSteps(), 0, []
    for i, optimizer in enumerate(order):
        ends, before = steps.stepped(optimizer, count >= warmup)
        if before is not None:
            count, found = min(before, warmup - 1), []
        count += ends
        if ends and count >= warmup:
            found.append(i)
    return found


def test_one_optimizer_ends_every_step() -> None:
    a = Optimizer()
    assert boundaries([a] * 8) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("warmup", [1, 2, 3])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_of_several_in_turn_the_last_one_ends_a_step(parts: int, warmup: int) -> None:
    # As Megatron's chained optimizer, whose parts step one after another.
    chain = [Optimizer() for _ in range(parts)]
    ends = boundaries(chain * 10, warmup)
    assert {i % parts for i in ends} == {parts - 1}
    # The first of these begins what is measured: that step is whole too.
    assert {later - earlier for earlier, later in itertools.pairwise(ends)} == {parts}
    assert len(ends) >= 10 - warmup


def test_the_one_that_steps_least_often_holds_the_others() -> None:
    critic, generator = Optimizer(), Optimizer()
    ends = boundaries(([critic] * 3 + [generator]) * 8)
    # As many rounds warm up as steps were asked for, however many optimizers step in them.
    assert ends == [4 * i + 3 for i in range(2, 8)]


def test_one_that_comes_late_starts_the_count_anew() -> None:
    # Ten critic steps to one of the generator: the warm-up is over before it shows up.
    critic, generator = Optimizer(), Optimizer()
    ends = boundaries(([critic] * 10 + [generator]) * 8)
    assert len(ends) > 2
    assert {i % 11 for i in ends} == {10}


@pytest.mark.parametrize("before", [1, 2, 3, 5])
def test_one_that_was_put_away_holds_nothing_up(before: int) -> None:
    # A trial, or layers that are thawed later: the program goes on with another optimizer.
    first, second = Optimizer(), Optimizer()
    ends = boundaries([first] * before + [second] * 30)
    assert len(ends) > 12
    assert {later - earlier for earlier, later in itertools.pairwise(ends)} == {1}
    assert ends[-1] == before + 29


@pytest.mark.parametrize("critics", [5, 7, 30, 200])
@pytest.mark.parametrize("turn", ["critics first", "generator first"])
def test_a_slow_one_is_waited_for_in_the_end(critics: int, turn: str) -> None:
    critic, generator = Optimizer(), Optimizer()
    one = [critic] * critics + [generator]
    order = (one if turn == "critics first" else one[::-1]) * 16
    ends = boundaries(order)
    assert len(ends) > 6
    assert {order[i] for i in ends} == {generator}


def test_what_a_step_is_does_not_change_while_it_is_profiled() -> None:
    a, b, c = Optimizer(), Optimizer(), Optimizer()
    steps = optimizers.OptimizerSteps()
    for i in range(8):
        steps.stepped((a, b)[i % 2], decide=i > 3)
    told = [steps.stepped(one, True, fixed=True) for one in (a, c, c, b, *[a] * 50, b)]
    assert told == [(False, None)] * 3 + [(True, None)] + [(False, None)] * 50 + [(True, None)]


@pytest.mark.parametrize(
    ("marker", "known"),
    [
        ("optimizer", True), ("forward", True), ("explicit", True), ("annotation:train", True),
        ("function:mod:Class.step", True), ("function:mod", False), ("annotation:", False),
        ("epoch", False),
    ],
)  # fmt: skip
def test_what_a_marker_may_be(marker: str, known: bool) -> None:
    assert (markers.check(marker) is None) == known


def test_a_function_tells_when_it_returns() -> None:
    import types

    module = types.ModuleType("m")

    class Trainer:
        def step(self, x: int) -> int:
            return x + 1

    module.Trainer = Trainer  # type: ignore[attr-defined]
    heard: list[int] = []
    markers.on_function(lambda: heard.append(1))
    try:
        markers.wrap_function(module, "Trainer.step")
        assert Trainer().step(2) == 3
        assert heard == [1]
    finally:
        markers._called.clear()
