"""What the recipes switch on: facts of the public configurations, and which rule decides."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.cluster.framework_rules import (
    Facts,
    FrameworkRules,
    Rule,
    Switches,
    When,
    Within,
    holds,
)
from codesign.cluster.framework_table import shipped_rules
from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.plan import Plan

SYSTEMS = ("hgx-h100", "hgx-h200", "hgx-b200", "hgx-b300", "gb200-nvl72", "gb300-nvl72")


def _facts(model: str, system: str, release: str, precision: Any = "bf16", **plan: Any) -> Facts:
    label = plan.pop("label", model)
    return Facts(release, system, model, label, precision, load_model_config(model), Plan(**plan))


def _framework(facts: Facts) -> Framework:
    return shipped_rules().switches(facts).framework(facts.config.num_hidden_layers)


def test_deepseek_on_hopper_goes_by_deepep_between_nodes() -> None:
    """H100, 26.02: EP 64 of 8 GPUs a node, interleaved, one sequence a micro-batch."""
    facts = _facts("deepseek-v3", "hgx-h100", "26.02", "fp8_block", tp=2, pp=8, vpp=4, ep=64, dp=64)
    framework = _framework(facts)
    assert (framework.dispatcher, framework.ep_overlap) == ("fused", True)
    assert (framework.graphs, framework.fused_moe) == ("none", False)
    switches = shipped_rules().switches(facts)
    assert switches.given(Plan) == {"recompute": "selective"}
    assert switches.given(Job) == {"gradient_bytes": 2.0, "moment_bytes": 2.0}


@pytest.mark.parametrize("system", ["hgx-b300", "gb300-nvl72"])
def test_gpt_oss_where_memory_is_ample(system: str) -> None:
    """cuda_graph_scope attn, moe_router, moe_preprocess; no flex dispatcher, nothing done again."""
    facts = _facts("gpt-oss-120b", system, "26.02", ep=64, dp=64, micro_batch=4)
    framework = _framework(facts)
    assert (framework.graphs, framework.dispatcher) == ("partial", "all_to_all")
    assert shipped_rules().switches(facts).recompute is None


@pytest.mark.parametrize("system", ["hgx-h100", "hgx-b200", "gb200-nvl72"])
def test_gpt_oss_where_memory_is_short(system: str) -> None:
    """recompute_modules layernorm and moe_act, no cuda_graph_impl."""
    facts = _facts("gpt-oss-120b", system, "26.02", ep=64, dp=64, micro_batch=4)
    assert _framework(facts).graphs == "none"
    assert shipped_rules().switches(facts).recompute == "selective"


@pytest.mark.parametrize(
    ("system", "graphs", "dispatcher"),
    [("gb200-nvl72", "partial", "hybrid"), ("gb300-nvl72", "partial", "hybrid"),
     ("hgx-b200", "none", "all_to_all"), ("hgx-h100", "none", "all_to_all")],
)  # fmt: skip
def test_qwen_of_26_02(system: str, graphs: str, dispatcher: str) -> None:
    """moe_flex_dispatcher_backend hybridep on GB200 and GB300, alltoall on HGX."""
    framework = _framework(_facts("qwen3-235b-a22b", system, "26.02", "mxfp8", pp=8, ep=8, dp=32))
    assert (framework.graphs, framework.dispatcher) == (graphs, dispatcher)


@pytest.mark.parametrize(
    ("model", "system", "layers"),
    [("llama-3-70b", "gb300-nvl72", 20), ("llama-3-70b", "gb200-nvl72", 40),
     ("llama-3-70b", "hgx-b200", 5), ("llama-3.1-405b", "gb300-nvl72", 10),
     ("llama-3.1-405b", "gb200-nvl72", 92)],
)  # fmt: skip
def test_layers_kept_in_host_memory(model: str, system: str, layers: int) -> None:
    """cpu_offloading_num_layers of the FP8 configurations with Megatron FSDP."""
    facts = _facts(model, system, "26.02", "fp8", zero=3, dp=64)
    assert _framework(facts).offload * facts.config.num_hidden_layers == pytest.approx(layers)
    plain = _facts(model, system, "26.02", "fp8", zero=1, dp=64)
    assert _framework(plain).offload == 0.0


def test_whole_iterations_for_mxfp8_from_26_06() -> None:
    """full_iteration, cutedsl_fused_grouped_mlp, moe_a2a_overlap, fp8_dot_product_attention."""

    def on(system: str, release: str = "26.06", precision: str = "mxfp8") -> Framework:
        return _framework(
            _facts("deepseek-v3", system, release, precision, pp=2, vpp=8, ep=32, dp=128)
        )  # fmt: skip

    new = on("gb300-nvl72")
    assert (new.graphs, new.fused_moe, new.ep_overlap) == ("full", True, True)
    assert new.attention_precision == "fp8"
    assert on("gb300-nvl72", "26.08.01") == new
    for other in (on("gb300-nvl72", "26.04.01"), on("gb300-nvl72", precision="fp8"),
                  on("hgx-h100")):  # fmt: skip
        assert not other.fused_moe
        assert (other.graphs, other.attention_precision) == ("partial", "bf16")


def test_nvfp4_has_no_overlap_of_tensor_parallel_collectives() -> None:
    """tp_comm_overlap is false for nvfp4."""
    assert not _framework(_facts("llama-3-70b", "gb200-nvl72", "26.02", "nvfp4", tp=2)).tp_overlap
    assert _framework(_facts("llama-3-70b", "gb200-nvl72", "26.02", "fp8", tp=2)).tp_overlap


def test_no_shipped_rule_is_dead() -> None:
    """Each decides something for some run: one that later rules always override says nothing."""
    plans = [Plan(), Plan(ep=8, dp=8, micro_batch=4), Plan(pp=8, vpp=4, ep=32, dp=32),
             Plan(zero=3, dp=64)]  # fmt: skip
    models = ("llama-3-8b", "llama-3-70b", "llama-3.1-405b", "qwen3-30b-a3b", "qwen3-235b-a22b",
              "gpt-oss-120b", "deepseek-v3")  # fmt: skip
    rules = shipped_rules().rules
    decides: set[int] = set()
    for release, system, model, precision, plan, label in product(
        ("25.11", "26.02", "26.06"), SYSTEMS, models, ("bf16", "mxfp8", "nvfp4"), plans,
        ("", "tokendrop"),
    ):  # fmt: skip
        facts = Facts(release, system, model, label, precision, load_model_config(model), plan)
        active = [i for i, rule in enumerate(rules) if holds(rule.when, facts)]
        for key in Switches.__struct_fields__:
            setting = [i for i in active if getattr(rules[i].set, key) is not None]
            before = [getattr(rules[i].set, key) for i in setting[-2:-1]]
            if setting and before != [getattr(rules[setting[-1]].set, key)]:
                decides.add(setting[-1])
    assert [rules[i].why for i in range(len(rules)) if i not in decides] == []


def _rules(*pairs: tuple[When, Switches]) -> FrameworkRules:
    return FrameworkRules("a test", tuple(Rule(w, s, "so") for w, s in pairs))


FACTS = _facts("qwen3-30b-a3b", "gb200-nvl72", "26.04.01", "mxfp8", ep=8, dp=8, micro_batch=2,
               label="Qwen3_30B_a3B (tokendrop)")  # fmt: skip


def test_a_later_rule_overrides_key_by_key() -> None:
    general = (When(), Switches(graphs="partial", dispatcher="fused"))
    exception = (When(models=("qwen3-30b-a3b",)), Switches(graphs="none"))
    other = (When(models=("llama-3-8b",)), Switches(dispatcher="all_to_all"))
    found = _rules(general, exception, other).switches(FACTS)
    assert found.given() == {"graphs": "none", "dispatcher": "fused"}
    assert _rules(exception, general).switches(FACTS).graphs == "partial"
    # Keys that no rule sets stay as the framework has them.
    assert msgspec.structs.replace(Framework(), graphs="none") == found.framework(48)


@given(st.sampled_from(["none", "partial", "full"]), st.booleans(), st.integers(0, 48))
def test_a_record_at_the_end_decides(graphs: Any, overlap: bool, layers: int) -> None:
    """A fact is added by adding a record, whatever stands before it."""
    last = Rule(When(), Switches(graphs=graphs, ep_overlap=overlap, offload_layers=layers), "so")
    found = FrameworkRules("a test", (*shipped_rules().rules, last)).switches(FACTS).framework(48)
    assert (found.graphs, found.ep_overlap) == (graphs, overlap)
    assert found.offload * 48 == pytest.approx(layers)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (When(releases=("26.04.01",)), True), (When(releases=("26.04",)), False),
        (When(since="26.04"), True), (When(since="26.06"), False),
        # A patch belongs to its release.
        (When(before="26.04"), False), (When(before="26.06"), True),
        (When(since="26.02", before="26.04"), False),
        (When(systems=("hgx-b200", "gb200-nvl72")), True), (When(systems=("hgx-b200",)), False),
        (When(label="tokendrop"), True), (When(label="dropless"), False),
        (When(precisions=("mxfp8",)), True), (When(precisions=("fp8",)), False),
        (When(experts=True, mla=False), True), (When(experts=False), False),
        (When(mla=True), False),
        (When(layers=48, ep=Within(min=8), micro_batch=Within(max=2)), True),
        (When(ep=Within(min=9)), False), (When(micro_batch=1), False),
        (When(model_parallel=1), True), (When(zero=3), False),
        # All that is given must hold.
        (When(systems=("gb200-nvl72",), zero=3), False),
    ],
)  # fmt: skip
def test_what_holds_of_a_run(when: When, expected: bool) -> None:
    assert holds(when, FACTS) is expected


def test_no_more_layers_wait_than_the_model_has() -> None:
    assert Switches(offload_layers=92).framework(12).offload == 1.0
