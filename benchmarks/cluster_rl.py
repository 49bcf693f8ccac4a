"""Published post-training steps against the model: nothing is fitted to them.

    python benchmarks/cluster_rl.py --model MODEL.json

GRPO of NeMo RL v0.4 on H100, BF16, one step on policy, rollout and training on the same GPUs
(docs/about/performance-summary.md and examples/configs/recipes/llm/performance of NVIDIA-NeMo/RL).
Each rollout is trained on in updates of 512 sequences, packed; log-probabilities are taken twice,
by the policy and by the reference. Assumed, since the source does not say: prompts of 150 tokens
within the mean length that it gives, and lengths that spread by half their mean.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from codesign.cluster.grid import OpTimes
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.plan import Plan
from codesign.cluster.posttrain import post_training_step, training_job
from codesign.cluster.rollout import Rollout
from codesign.hardware import load_system
from codesign.sensitivity import load_model

PROMPT, UPDATE = 150, 512
# (model, GPUs, prompts, samples, longest, mean length, rollout's tp, plan, seconds of the step)
STEPS = (
    ("llama-3-8b", 16, 64, 32, 4096, 1060, 1, Plan(pp=2, dp=8, recompute="full"), 97.7),
    ("qwen3-32b", 32, 64, 32, 4096, 3206, 4, Plan(tp=4, pp=4, dp=2), 393.0),
    ("qwen3-30b-a3b", 32, 64, 32, 4096, 3154, 4, Plan(tp=2, ep=8, dp=16), 225.0),
    ("qwen3-235b-a22b", 128, 32, 16, 8192, 5671, 16, Plan(tp=2, cp=2, pp=8, ep=16, dp=4), 506.0),
    ("deepseek-v3", 256, 32, 16, 1536, 745, 32, Plan(pp=16, ep=16, dp=16), 154.0),
)


def score(model: OpTimes) -> None:
    """Each step with its parts, and how far off the whole is."""
    system = load_system("hgx-h100")
    errors = []
    for name, gpus, prompts, samples, longest, mean, tp, plan, published_s in STEPS:
        rollout = Rollout(
            prompts, samples, PROMPT, mean - PROMPT, response_cv=0.5,
            response_max=longest - PROMPT, tp=tp, max_batch=1024,
        )  # fmt: skip
        whole = training_job(
            Job(load_model_config(name), gpus, plan.dp, longest, name=name), rollout
        )
        step = post_training_step(whole, plan, rollout, model, [system], reference_models=2)
        # The pipeline fills and drains, and gradients are reduced, once an update.
        updates = -(-prompts * samples // UPDATE)
        batch = max(whole.global_batch // updates // plan.dp, 1) * plan.dp
        one = Job(whole.model, gpus, batch, longest, name=name)
        small = post_training_step(one, plan, rollout, model, [system], reference_models=0)
        train_s = float(small.train_s[0]) * whole.global_batch / batch
        total = float(step.step_s[0] - step.train_s[0]) + train_s
        errors.append(total / published_s - 1)
        parts = {**step.parts(0), "train": train_s}
        shown = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())
        print(f"{name}, {gpus} GPUs: {published_s:.1f} s, predicted {total:.1f} s "
              f"({errors[-1]:+.0%}): {shown}")  # fmt: skip
    print(f"post-training steps: {len(errors)}, bias {np.median(errors):+.0%}")


def main() -> None:
    """Score the published steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, required=True, help="what `codesign fit` wrote")
    score(load_model(parser.parse_args().model))


if __name__ == "__main__":
    main()
