import copy

import msgspec
import pytest
import yaml

from codesign._common.errors import DataError, UsageError
from codesign._common.files import data_dir
from codesign.workload.recipe import Recipe, decode_recipe, list_recipes, load_recipe

PLAIN = yaml.safe_load((data_dir("reports") / "workloads" / "llama-3.1-8b-sft.yaml").read_text())


def changed(path, value):
    content = copy.deepcopy(PLAIN)
    *parents, last = path.split(".")
    place = content
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return content


def test_the_promised_workloads_are_shipped():
    assert set(list_recipes()) >= {
        "llama-3.1-8b-sft", "llama-3.1-70b-pretrain-bf16", "llama-3.1-70b-pretrain-fp8",
        "deepseek-v3-pretrain-fp8", "llama-3.1-70b-rollout-decode", "llama-3.1-70b-decode-b16",
        "llama-3.1-70b-rollout-prefill", "qwen3-235b-a22b-rollout-decode",
    }  # fmt: skip


@pytest.mark.parametrize("name", list_recipes())
def test_shipped_recipes_load_under_their_own_name(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.title
    assert "Hugging Face" in recipe.source


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("phase", "train", "allowed: decode, prefill, pretrain, rollout, sft"),
        ("name", "", "name = ''"),
        ("name", "../x", "name = '../x'"),
        ("name", "a\nb", "name = "),
        ("name", "x" * 201, "name = "),
        ("model.num_attention_heads", 48, "head_dim"),
        ("model.num_key_value_head", 8, "num_key_value_head"),
        ("model.hidden_size", "4096", "model.hidden_size"),
        ("model.num_attention_heads", 0, "num_attention_heads"),
        ("precision.gemm", "fp6", "precision.gemm"),
        ("precision.gem", "bf16", "gem"),
        ("parallelism.tp", 0, "tp = 0"),
        ("parallelism.tp", 3, "parallelism.tp = 3"),
        ("parallelism.tp", 64, "num_attention_heads"),
        ("parallelism.ep", 8, "ep"),
        ("parallelism.pp", 33, "pp"),
        ("parallelism.sequence_parallel", True, "sequence_parallel"),
        ("parallelism.schedule", "dualpipe-v", "schedule"),
        ("overlap.tp", {"behind": "forward"}, "reason"),
        ("overlap.tp", {"behind": "forward", "reason": " "}, "reason"),
        ("overlap.tp", {"behind": "forward", "reason": "r", "share": 1.5}, "share"),
        ("overlap.nvlink", {"behind": "none", "reason": "r"}, "nvlink"),
        ("micro_batch", 0, "micro_batch"),
        ("micro_batch", 1.5, "micro_batch"),
        ("sequence_length", 10**12, "sequence_length"),
        ("extrapolation", "maybe", "extrapolation"),
        ("colour", "red", "colour"),
        ("moe.distribution", "power_law_9", "distribution"),
    ],
)
def test_errors_name_the_file_and_the_key(path, value, named):
    with pytest.raises(DataError) as caught:
        decode_recipe(changed(path, value), "mine.yaml")
    message = str(caught.value)
    assert message.startswith("mine.yaml: ")
    assert named in message
    assert len(message.splitlines()) == 1


def test_fields_of_a_config_json_that_change_nothing_are_accepted():
    content = changed("model.rope_theta", 500000.0)
    content["model"]["architectures"] = ["LlamaForCausalLM"]
    assert decode_recipe(content, "x") == decode_recipe(PLAIN, "x")


def test_an_unknown_name_lists_what_exists():
    with pytest.raises(UsageError, match=r"llama-3\.1-8b-sft"):
        load_recipe("llama-4")
    with pytest.raises(UsageError):
        load_recipe("../workloads/llama-3.1-8b-sft")


def test_a_missing_or_broken_file_names_itself(tmp_path):
    with pytest.raises(DataError, match=r"gone\.yaml"):
        load_recipe(tmp_path / "gone.yaml")
    (tmp_path / "bad.yaml").write_text("name: [x\n")
    with pytest.raises(DataError, match=r"bad\.yaml"):
        load_recipe(str(tmp_path / "bad.yaml"))


def test_hash_follows_the_content_and_not_the_layout():
    reordered = dict(reversed(PLAIN.items()))
    one, other = decode_recipe(PLAIN, "x"), decode_recipe(reordered, "y")
    assert one.sha256() == other.sha256()
    assert decode_recipe(changed("micro_batch", 2), "x").sha256() != one.sha256()


def pipeline(micro_batches, **parallelism) -> Recipe:
    content = changed("parallelism", {"pp": 4, **parallelism})
    content["gradient_accumulation"] = micro_batches
    return decode_recipe(content, "x")


@pytest.mark.parametrize(
    ("chunks", "of_ideal", "of_total"), [(1, 0.375, 0.273), (2, 0.1875, 0.158)]
)
def test_bubble_is_a_ratio_to_the_ideal_time(chunks, of_ideal, of_total):
    ratio = pipeline(8, virtual_pipeline=chunks).bubble_ratio
    assert ratio == of_ideal
    assert ratio / (1 + ratio) == pytest.approx(of_total, abs=5e-4)


def test_dualpipe_has_the_smaller_bubble():
    assert pipeline(8, schedule="dualpipe").bubble_ratio < pipeline(8).bubble_ratio


def test_tokens_a_step_are_those_of_the_whole_job():
    # DeepSeek-V3 trained with 15360 sequences of 4096 tokens on 2048 GPUs.
    recipe = load_recipe("deepseek-v3-pretrain-fp8")
    assert recipe.tokens_per_step == 15360 * 4096
    assert recipe.parallelism.gpus == 2048
    # Splitting each sequence over cp ranks leaves the tokens of the job as they are.
    split = msgspec.structs.replace(
        load_recipe("llama-3.1-8b-sft"),
        parallelism=msgspec.structs.replace(PARALLEL, cp=8, dp=1),
    )
    assert split.tokens_per_step == 4 * 8192


PARALLEL = load_recipe("llama-3.1-8b-sft").parallelism
