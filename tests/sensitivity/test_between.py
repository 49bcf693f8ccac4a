"""Spreads between and inside GPUs: by hand, and never narrower than what is known."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from codesign.hardware import load_system
from codesign.sensitivity.between import (
    ASSUMED_CARRY,
    ASSUMED_TRANSFER_SD,
    Between,
    between_gpus,
    nugget,
)
from codesign.sensitivity.effects import Effect, WithEffects
from codesign.sensitivity.estimate import Block, Estimate, Near
from codesign.sensitivity.fit import pooled_spreads
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.modelfile import Score, Unit

ROWS = 400


def made(residuals: dict[tuple[str, str], np.ndarray], weights: dict[str, float]) -> Between:
    """Components of (gpu, family) residuals; the same ops on every GPU."""
    hw = hardware_arrays([load_system("hgx-h100")])
    key = np.arange(ROWS, dtype=np.uint64)
    blocks = [
        Block(gpu=gpu, architecture=family, hw=hw, features={}, time_s=np.exp(r), key=key,
              weight=weights.get(gpu, 1.0))
        for (gpu, family), r in residuals.items()
    ]  # fmt: skip
    stacked = np.concatenate(list(residuals.values()))
    none = np.zeros((stacked.size, 1))
    found = Estimate(
        z=np.zeros(1), covariance=np.eye(1), jacobian=none, residual=stacked, left_out=stacked,
        weight=np.ones(stacked.size), cluster=np.repeat(np.arange(len(blocks)), ROWS),
        condition_number=1.0, rank=1,
    )  # fmt: skip
    return between_gpus(blocks, WithEffects(found, (), list(residuals.values())))


def noise(seed: int, sd: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, sd, ROWS)


def test_the_own_spread_is_that_of_the_5_and_95_per_cent_points() -> None:
    found = made({("a", "x"): noise(1, 0.1), ("b", "y"): noise(2, 0.1)}, {})
    assert found.residual_sd == pytest.approx(0.1, rel=0.1)


def test_residuals_that_repeat_inside_a_family_carry_over() -> None:
    common = noise(1, 0.2)
    found = made({("a", "x"): common, ("b", "x"): common + noise(2, 0.02)}, {})
    assert found.carry_same == pytest.approx(1.0, abs=0.03)
    # 0.02 found on one pair, 0.08 assumed on one: sqrt((0.0004 + 0.0064) / 2).
    assert found.transfer_sd_same == pytest.approx(0.058, abs=0.004)
    assert found.carry_evidence == "estimated/assumed"
    assert found.carry_cross == ASSUMED_CARRY["cross"]


def test_unrelated_residuals_do_not_carry_and_a_source_never_widens() -> None:
    found = made({("a", "x"): noise(1, 0.1), ("b", "y"): noise(2, 0.1)}, {})
    assert found.carry_cross < 0.1
    assert found.transfer_sd_cross <= found.residual_sd + 1e-12
    assert found.transfer_sd_same == ASSUMED_TRANSFER_SD["same"]


def test_pairs_with_a_light_part_hardly_count() -> None:
    common = noise(1, 0.2)
    residuals = {("a", "x"): common, ("b", "y"): common.copy(), ("gddr", "z"): noise(3, 0.9)}
    heavy = made(residuals, {"gddr": 0.001})
    assert heavy.carry_cross == pytest.approx(1.0, abs=0.02)
    assert made(residuals, {}).carry_cross < 0.8


def test_a_level_lies_between_none_and_the_parts_own_and_more_parts_tell_more() -> None:
    residuals = {("a", "x"): 0.3 + noise(1, 0.05), ("b", "y"): -0.3 + noise(2, 0.05)}
    one = made(residuals, {})
    assert 0.0 < one.level("x") < 0.3
    assert one.level("y") == pytest.approx(-one.level("x"), abs=0.02)
    assert one.level("never seen") == 0.0
    two = made(residuals | {("c", "x"): 0.3 + noise(3, 0.05)}, {})
    assert one.level("x") < two.level("x") < 0.31
    assert two.level_sd("x") < two.level_sd("y") < two.level_sd("never seen")


def test_a_level_is_what_a_normal_family_is_expected_to_be_given_its_parts() -> None:
    """By conditioning the joint normal of a family and its three parts, without shrinking."""
    x = {(gpu, "x"): mean + noise(i, 0.05)
         for i, (gpu, mean) in enumerate([("a", 0.31), ("c", 0.24), ("d", 0.29)])}  # fmt: skip
    made_of = made(x | {("b", "y"): -0.2 + noise(9, 0.05)}, {})
    of_family, of_gpu = made_of.family_sd**2, made_of.gpu_sd**2
    joint = np.full((3, 3), of_family) + of_gpu * np.eye(3)
    weight = np.linalg.solve(joint, np.full(3, of_family))
    medians = np.array([np.median(r) for r in x.values()])
    assert made_of.level("x") == pytest.approx(weight @ medians)
    assert made_of.level_sd("x") ** 2 == pytest.approx(of_family - weight.sum() * of_family)


def unit(
    variant: str, degrees: float, own: float, model: str = "gemm", known: float | None = None
) -> Unit:
    between = Between(
        family_sd=0.1, family_degrees=degrees, gpu_sd=0.04, residual_sd=own,
        known_sd=known or own / 4, nugget_sd=0.6 * own, kernel_sd=0.0, kernel_own_sd=0.0,
        method="moments", carry_same=0.9, carry_cross=0.2, transfer_sd_same=0.08,
        transfer_sd_cross=min(own, 0.3), carry_evidence="assumed/assumed", gain_sd=0.1, effects=(),
    )  # fmt: skip
    return Unit(
        model=model, variant=variant, form="", parameters=(), values=(), z=(), covariance=(),
        draws=((),), between=between, gpus=(), rows_seen=0, condition_number=1.0, rank=0,
        score=Score(n=0, median_ape=0, mape=0, bias=0, by_gpu={}, bias_by_gpu={}), at_bound=(),
    )  # fmt: skip


def test_a_lone_family_takes_its_own_spread_from_its_siblings_else_from_all() -> None:
    """Degrees of freedom are families and the prior's three."""
    units = [unit("bf16", 5.1, 0.2), unit("fp8", 4.2, 0.6), unit("x", 5.2, 0.1, "attention"),
             unit("cast", 4.0, 0.9, "memory")]  # fmt: skip
    pooled = {u.variant: u.between for u in pooled_spreads(units)}
    assert pooled["bf16"].residual_sd == 0.2
    assert pooled["fp8"].residual_sd == 0.2
    assert pooled["fp8"].transfer_sd_cross == 0.2
    # What it has of its own stays, up to the whole: 0.36, held to 0.2.
    assert pooled["fp8"].nugget_sd == 0.2
    assert pooled["cast"].residual_sd == pytest.approx(0.225)


def test_a_new_familys_ops_spread_no_less_than_those_of_the_one_that_was_seen() -> None:
    units = [unit("bf16", 5.1, 0.2), unit("fp8", 4.2, 0.6, known=0.35)]
    pooled = {u.variant: u.between for u in pooled_spreads(units)}
    assert pooled["fp8"].residual_sd == 0.35


def test_what_is_an_ops_own_is_no_more_than_its_familys_spread() -> None:
    """No neighbours: all of 0.2 is the op's own in a new family, in a known one all of 0.12."""
    found = msgspec.structs.replace(
        unit("bf16", 5.1, 0.2, known=0.12).between, nugget_sd=0.2,
        effects=(Effect("e", 0.0, 1.0, (), {"hopper": 0.1}, {"hopper": 0.1}),),
    )  # fmt: skip
    assert (found.alone_sd("hopper"), found.region_sd("hopper")) == (0.12, 0.0)
    assert (found.alone_sd("new"), found.region_sd("new")) == (0.2, 0.0)


def neighbouring(alone: float, region: float, weight: float = 1.0) -> Block:
    """Pairs of neighbours that share ``region`` and differ each by ``alone``."""
    rng = np.random.default_rng(7)
    shared = rng.normal(0.0, region, ROWS)
    here, beside = (np.exp(shared + rng.normal(0.0, alone, ROWS)) for _ in range(2))
    near = Near(of=np.arange(ROWS), features={}, time_s=beside)
    return Block(gpu="a", architecture="x", hw=hardware_arrays([load_system("hgx-h100")]),
                 features={}, time_s=here, key=np.arange(ROWS, dtype=np.uint64), weight=weight,
                 near=near)  # fmt: skip


def test_the_nugget_is_what_neighbours_do_not_share() -> None:
    flat = [np.zeros(ROWS)]
    assert nugget([neighbouring(0.05, 0.3)], flat, flat) == pytest.approx(0.05, rel=0.12)
    assert nugget([neighbouring(0.2, 0.0)], flat, flat) == pytest.approx(0.2, rel=0.12)


def test_a_light_part_hardly_moves_the_nugget() -> None:
    flat = [np.zeros(ROWS)] * 2
    blocks = [neighbouring(0.05, 0.3), neighbouring(0.5, 0.3, weight=0.01)]
    assert nugget(blocks, flat, flat) == pytest.approx(0.05, rel=0.2)


def test_without_neighbours_there_is_no_nugget() -> None:
    block = replace(neighbouring(0.05, 0.3), near=None)
    assert nugget([block], [np.zeros(ROWS)], [np.zeros(0)]) is None


def test_nothing_to_pool_from_leaves_all_as_it_is() -> None:
    alone = [unit("fp8", 4.2, 0.6)]
    assert pooled_spreads(alone) == alone
