"""Held-out scores and the baseline, on runs that a known model made."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from codesign.cluster.calibrate import Prepared, predict, prepare
from codesign.cluster.efficiency import UNCALIBRATED
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.plan import Plan
from codesign.cluster.published import Run
from codesign.cluster.scoring import constant_mfu, hold_out
from tests.cluster.fakes import Roofline

SYSTEMS = ("hgx-h100", "hgx-b200", "gb300-nvl72")


def _runs() -> list[Prepared]:
    runs = []
    for i, system in enumerate(SYSTEMS):
        for j, name in enumerate(("llama-3-8b", "llama-3-70b")):
            for tp in (1, 2, 4):
                job = Job(load_model_config(name), 64, 128, 4096, name=name)
                plan = Plan(tp=tp, dp=64 // tp)
                runs.append(Run("t", 10 * i + j, job, plan, system, 1.0, release="26.01"))
    return prepare(runs, Roofline())


def test_unseen_systems_are_predicted_where_one_law_holds() -> None:
    prepared = _runs()
    truth = msgspec.structs.replace(UNCALIBRATED, gemm=1.3, memory=1.5)
    seconds = predict(prepared, truth)
    data = [replace(p, run=replace(p.run, step_s=float(s)))
            for p, s in zip(prepared, seconds, strict=True)]  # fmt: skip
    held = hold_out(data, lambda run: run.system != "gb300-nvl72")
    assert (held.seen, held.scores.runs) == (12, 6)
    assert held.scores.median < 0.05
    assert held.scores.rank > 0.95


def test_constant_mfu_is_the_mean_share_of_the_peak() -> None:
    prepared = [p for p in _runs() if p.run.plan.tp == 1]
    flops = [6.0 * p.run.job.model.parameters() * p.run.job.tokens / 64 for p in prepared]
    peaks = [p.system.gpu.peak_dense_flops_per_s["bf16"] for p in prepared]
    data = [replace(p, run=replace(p.run, step_s=f / peak / 0.4))
            for p, f, peak in zip(prepared, flops, peaks, strict=True)]  # fmt: skip
    guessed = constant_mfu(data, lambda run: run.system == "hgx-h100")
    assert guessed == pytest.approx(np.array([p.run.step_s for p in data]))
