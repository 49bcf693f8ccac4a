"""What `codesign recommend` makes of a portfolio and the what-if options over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codesign._common.errors import CodesignError, DataError, UsageError, did_you_mean, one_of
from codesign.cli._common import key_value

if TYPE_CHECKING:
    from codesign.recommend.portfolio import Portfolio, WorkloadEntry


def planned(
    name: str, scenario: str | None, weights: tuple[str, ...], steps: tuple[str, ...],
    budgets: tuple[str, ...], min_gain: str | None, changes: dict[str, Any],
) -> Portfolio:  # fmt: skip
    """The portfolio with what the command line says over it; what that leaves out stays.

    Raises UsageError, naming the option, for what cannot be.
    """
    import msgspec

    from codesign.recommend.portfolio import in_scenario, load_portfolio, reweighted

    plan = load_portfolio(name)
    given = {key: value for key, value in changes.items() if value is not None}
    if min_gain is not None:
        given["min_gain"] = _share("--min-gain", min_gain, "a share such as 0.02 or 2%")
        if not 0 <= given["min_gain"] <= 1:
            raise UsageError(f"--min-gain {min_gain}: expected 0 to 100 %")
    said = {"weights": list(weights), "steps": list(steps), "budgets": list(budgets)}
    asked = given | {key: value for key, value in {"scenario": scenario, **said}.items() if value}
    plan = msgspec.structs.replace(plan, **given, requested=asked)
    if scenario is not None:
        plan = _under(plan, scenario, in_scenario)
    if weights:
        plan = reweighted(plan, _by_entry(plan, _weights(weights)))
    if steps:
        plan = _with_steps(plan, steps)
    return _with_budgets(plan, budgets) if budgets else plan


def _under(plan: Portfolio, scenario: str, in_scenario: Any) -> Portfolio:
    import msgspec

    if scenario not in plan.scenarios:
        known = one_of("scenario", scenario, list(plan.scenarios))
        raise UsageError(
            f"--scenario: {known if plan.scenarios else 'the portfolio has no scenarios'}"
        )
    made: Portfolio = in_scenario(plan, scenario)
    note = f"weights are those of the scenario {scenario!r}"
    return msgspec.structs.replace(made, notes=(*made.notes, note))


def _with_steps(plan: Portfolio, texts: tuple[str, ...]) -> Portfolio:
    import msgspec

    from codesign.hardware.levers import LEVERS
    from codesign.recommend.portfolio import checked_steps

    expected = "LEVER=STEP[,STEP...], such as hbm_bandwidth=+25%,x2 or sm_count=160"
    levers = dict(plan.levers) or {name: tuple(lever.steps) for name, lever in LEVERS.items()}
    said = []
    for text in texts:
        lever, value = key_value("--steps", text, expected)
        steps = tuple(_step(lever, part.strip()) for part in value.split(","))
        try:
            checked_steps(lever, steps, f"--steps {lever}")
        except DataError as error:
            raise UsageError(str(error)) from error
        levers[lever] = steps
        said.append(f"{lever} = {value}")
    note = f"steps set on request: {'; '.join(said)}"
    return msgspec.structs.replace(plan, levers=levers, notes=(*plan.notes, note))


def _step(lever: str, text: str) -> float | str:
    """A factor, or a change or value as ``--set`` reads it: ``sm_count=160`` is 160 SMs."""
    from codesign.hardware.levers import LEVERS

    if lever in LEVERS and LEVERS[lever].counts and text.isdecimal():
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _with_budgets(plan: Portfolio, texts: tuple[str, ...]) -> Portfolio:
    import math

    import msgspec

    from codesign.hardware.costs import COST_KINDS

    expected = "KIND=AMOUNT per GPU: power in W, area in mm2 or money in USD, such as power=100"
    budgets: dict[Any, float] = dict(plan.budgets)
    for text in texts:
        kind, value = key_value("--budget", text, expected)
        try:
            amount = float(value)
        except ValueError as error:
            raise UsageError(f"--budget {text!r}: expected {expected}") from error
        if kind not in COST_KINDS or not (math.isfinite(amount) and amount >= 0):
            raise UsageError(f"--budget {text!r}: expected {expected}")
        budgets[kind] = amount
    said = ", ".join(f"{kind} = {amount:g}" for kind, amount in sorted(budgets.items()))
    note = f"budgets set on request: {said}"
    return msgspec.structs.replace(plan, budgets=budgets, notes=(*plan.notes, note))


def _by_entry(plan: Portfolio, weights: dict[str, float]) -> dict[str, float]:
    """The weights by the names that the portfolio's entries go by: the stem of each file.

    What a file says of itself is a name, too. Raises UsageError for one that is unknown or
    of several entries, or for one workload given by both.
    """
    if set(weights) <= set(plan.names):
        return weights
    own = {entry.name: _own_name(plan, entry) for entry in plan.workloads}
    found: dict[str, float] = {}
    for asked, weight in weights.items():
        fits = [asked] if asked in own else [name for name, said in own.items() if said == asked]
        if len(fits) != 1:
            known = [f"{n} (named {s})" if s not in ("", n) else n for n, s in own.items()]
            what = f"it names {' and '.join(fits)}" if fits else "unknown workload"
            names = list(dict.fromkeys([*own, *own.values()]))
            hint = "" if fits else did_you_mean(asked, names)
            raise UsageError(f"--weights {asked}: {what}{hint}; known: {', '.join(known)}")
        if fits[0] in found:
            raise UsageError(f"--weights: {fits[0]} is given twice, by both of its names")
        found[fits[0]] = weight
    return found


def _own_name(plan: Portfolio, entry: WorkloadEntry) -> str:
    """The ``name`` in a recipe or the ``workload`` in a characterization; empty if unreadable."""
    from codesign.workload.characterization import Characterization
    from codesign.workload.recipe import load_recipe

    try:
        if entry.recipe is not None:
            beside = plan.folder / entry.recipe
            return load_recipe(beside if beside.is_file() else entry.recipe).name
        if entry.characterization is not None:
            return Characterization.load(plan.folder / entry.characterization).header.workload
    except CodesignError:
        pass  # Reading the portfolio says it better.
    return ""


def _weights(texts: tuple[str, ...]) -> dict[str, float]:
    expected = "NAME=SHARE, such as my-sft=0.4 or my-sft=40%"
    found: dict[str, float] = {}
    for text in texts:
        name, share = key_value("--weights", text, expected, last=True)
        if name in found:
            raise UsageError(f"--weights: {name} is given twice")
        found[name] = _share(f"--weights {text!r}", share, expected)
    return found


def _share(option: str, text: str, expected: str) -> float:
    percent = text.endswith("%")
    try:
        return float(text.removesuffix("%")) / (100 if percent else 1)
    except ValueError as error:
        raise UsageError(f"{option}: expected {expected}") from error
