"""Speed and size of a large report: 20 workloads x 12 levers x 8 steps x 1,000 draws.

    python benchmarks/report.py --model MODEL.json [--workloads 20] [--steps 8] [--draws 1000]

``--model``: what `codesign fit` wrote. The workloads are the shipped recipes, composed on one
system and taken again under other names until there are enough; every copy is projected anew.
Bars: 60 s from characterizations to the written page on two cores, 3 MB of HTML.
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from codesign.hardware import load_system
from codesign.hardware.levers import LEVERS
from codesign.recommend import load_portfolio, recommend
from codesign.recommend.portfolio import Portfolio, WorkloadEntry
from codesign.report import render
from codesign.sensitivity import load_model
from codesign.sources.compose import compose
from codesign.sources.perfdb import PerfDB
from codesign.workload.characterization import Characterization
from codesign.workload.recipe import load_recipe

STUDIED = 12
SPAN = 4.0
"""Largest factor of a lever; the steps are even in its logarithm."""
BAR_S, BAR_BYTES = 60.0, 3e6


def factors(lever: str, steps: int) -> tuple[float, ...]:
    """``steps`` improving factors up to `SPAN`; whole ones where the lever counts."""
    if LEVERS[lever].counts:
        return tuple(float(2 + i) for i in range(steps))
    up = [math.exp(math.log(SPAN) * (i + 1) / steps) for i in range(steps)]
    return tuple(up if LEVERS[lever].better == "up" else [1 / f for f in up])


def workloads(plan: Portfolio, count: int) -> dict[str, Characterization]:
    """``count`` characterizations, from the recipes of ``plan``."""
    base = load_system(plan.baseline)
    db = PerfDB()
    made = [compose(load_recipe(str(w.recipe)), db, base) for w in plan.workloads]
    return {
        f"{char.header.workload}-{i}": char.with_header(workload=f"{char.header.workload}-{i}")
        for i, char in enumerate(islice(cycle(made), count))
    }


def portfolio(names: list[str], steps: int, draws: int, baseline: str) -> Portfolio:
    """The study: equal weights, the first levers of the library that a part can have."""
    studied = [name for name in LEVERS if name != "fp4_throughput"][:STUDIED]
    return Portfolio(
        title="Benchmark", baseline=baseline, draws=draws, ranking="power",
        workloads=tuple(
            WorkloadEntry(weight=1 / len(names), characterization=f"{name}.parquet")
            for name in names
        ),
        levers={name: factors(name, steps) for name in studied},
    )  # fmt: skip


def main() -> None:
    """Run it and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--workloads", type=int, default=20)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--draws", type=int, default=1000)
    asked = parser.parse_args()
    shipped = load_portfolio("default")
    chars = workloads(shipped, asked.workloads)
    plan = portfolio([*chars], asked.steps, asked.draws, shipped.baseline)
    model = load_model(asked.model)
    start, cpu = time.perf_counter(), time.process_time()
    recs = recommend(plan, chars, model)
    studied = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        render(recs, page)
        size = page.stat().st_size
    end = time.perf_counter()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{len(chars)} workloads x {len(plan.levers)} levers x {asked.steps} steps x "
          f"{asked.draws} draws: study {studied - start:.1f} s, page {end - studied:.1f} s, "
          f"{time.process_time() - cpu:.1f} s of CPU, peak {peak_mb:.0f} MB")  # fmt: skip
    print(f"total {end - start:.1f} s (bar {BAR_S:.0f} s); "
          f"HTML {size / 1e6:.2f} MB (bar {BAR_BYTES / 1e6:.0f} MB)")  # fmt: skip


if __name__ == "__main__":
    main()
