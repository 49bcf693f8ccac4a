"""The two lever tables of docs/cluster.md: a part against another, and NVLink domains by size.

    python benchmarks/cluster_levers.py --model MODEL.json

``--model``: what `codesign fit` wrote. Prints Markdown; takes some minutes of one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from codesign.cluster.job import Framework, Job, TrainingPrecision, load_model_config
from codesign.cluster.levers import capacity_split, domain_study
from codesign.hardware import load_system
from codesign.sensitivity import SensitivityModel, load_model

FRAMEWORK = Framework(graphs="full", fused_moe=True, ep_overlap=True, dispatcher="hybrid")
DOMAINS = (36, 72, 144, 576)
PARTS: tuple[tuple[str, int, int, TrainingPrecision, str, str], ...] = (
    ("llama-3-70b", 64, 128, "bf16", "hgx-h100", "hgx-h200"),
    ("llama-3.1-405b", 512, 512, "bf16", "hgx-h100", "hgx-h200"),
    ("deepseek-v3", 1024, 8192, "fp8", "hgx-h100", "hgx-h200"),
    ("llama-3-70b", 64, 128, "fp8", "gb200-nvl72", "gb300-nvl72"),
    ("llama-3.1-405b", 256, 1536, "fp8", "gb200-nvl72", "gb300-nvl72"),
    ("deepseek-v3", 256, 4096, "mxfp8", "gb200-nvl72", "gb300-nvl72"),
)
JOBS = (
    ("llama-3-8b", 8, 64), ("qwen3-30b-a3b", 8, 64), ("llama-3-70b", 1024, 2048),
    ("llama-3.1-405b", 4096, 4096), ("llama-3.1-405b", 16384, 4096),
    ("qwen3-235b-a22b", 1024, 8192), ("deepseek-v3", 2048, 16384),
    ("deepseek-v3", 16384, 65536), ("kimi-k2", 2048, 16384),
)  # fmt: skip


def job_of(name: str, gpus: int, batch: int, sequence: int, precision: TrainingPrecision) -> Job:
    """A training step in the current framework's ways."""
    return Job(load_model_config(name), gpus, batch, sequence, name=name, precision=precision,
               gradient_bytes=2.0, framework=FRAMEWORK)  # fmt: skip


def parts(model: SensitivityModel) -> None:
    """Rates, power and capacity of one part against another."""
    print("| job | parts | rates | power | capacity | all |\n|---|---|---|---|---|---|")
    for name, gpus, batch, precision, base, candidate in PARTS:
        sequence = 8192 if "llama" in name else 4096
        job = job_of(name, gpus, batch, sequence, precision)
        split = capacity_split(job, model, load_system(base), load_system(candidate))
        gains = [gain for _, gain in split.steps] + [split.total]
        print(f"| {name}, {gpus} GPUs, {precision} | {base} to {candidate} | "
              + " | ".join(f"{gain:.3f}" for gain in gains) + " |", flush=True)  # fmt: skip


def domains(model: SensitivityModel) -> None:
    """Domains of other sizes on HGX B200: at the base's plan / both re-planned."""
    print("\n| job | " + " | ".join(map(str, DOMAINS)) + " |\n|---" + "|---" * len(DOMAINS) + "|")
    for name, gpus, batch in JOBS:
        sequence = 8192 if name == "llama-3-8b" else 4096
        job = job_of(name, gpus, batch, sequence, "mxfp8")
        study = domain_study(job, model, load_system("hgx-b200"), [8, *DOMAINS])
        gains = dict(zip((8, *DOMAINS), study.gains, strict=True))
        shown = " | ".join(f"{gains[d].fixed:.3f} / {gains[d].replanned:.3f}" for d in DOMAINS)
        print(f"| {name}, {gpus:,} GPUs | {shown} |", flush=True)


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    model = load_model(parser.parse_args().model)
    parts(model)
    domains(model)


if __name__ == "__main__":
    main()
