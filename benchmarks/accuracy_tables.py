"""Tables of docs/accuracy.md from backtest scores, wins and losses by the same rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from codesign._common.scores import Backtest, BacktestRow, WorkloadBacktestRow

TITLES = {"trtllm": "TensorRT-LLM", "sglang": "SGLang", "vllm": "vLLM"}
CLASSES = ("gemm", "grouped_gemm", "attention", "collective", "quantize")
TARGETS = ("h200-sxm", "b200-sxm", "gb200", "b300-sxm", "gb300")
_FAMILY = {"h100-sxm": "hopper", "h200-sxm": "hopper", "a100-80gb-sxm": "ampere"}

HEAD = """# Accuracy

What the fitted models predict for GPUs that they have never seen, losses included. Written by
`python benchmarks/accuracy.py --rows {rows}`: the time-ordered backtest on the kernels of
{names}, up to {rows} rows of a group and target. Models are fitted on A100, H100 and L40S
alone unless a table says otherwise; nothing measured on the target enters but its
specification, and its launch latency, which is read off a part's own kernels, is taken from
older parts.

Errors are per cent: median APE / MAPE (median bias). "Coverage" is the share of measurements
inside the 90 % interval. Beside them stand, fitted to the same training rows, the roofline with
a launch floor, two efficiencies and a smoothness ("roofline"), and the source's time x the ratio
of the rooflines' peaks ("ratio").

## Limits of the data

- **One network between domains.** The multi-node DeepEP tables of `h200_sxm` equal those of
  `h100_sxm` row for row: one measurement under two labels, at 400 Gb/s. The copy is left out of
  fits and backtests; a recipe composed on H200 uses it, labelled "assumed", so that the same
  network is equally fast on both. So nothing tells what `scaleout_bandwidth` and
  `nvlink_domain` do: their effect is "assumed", they rank behind what was measured, and no
  backtest varies them.
- The exchanges over 8 nodes move 22 GB/s of a 50 GB/s NIC, those over 4 nodes 40; DeepEP's
  authors publish 50 to 51 GB/s over 8 nodes with the same NIC. What those levers gain on
  DeepSeek-V3 depends on whether that point is typical; the recipe says so as a caveat.
- "Measured" gains of whole workloads are composed from kernel tables on both sides; no
  end-to-end run is among them.
- B200, GB200, B300 and GB300 are one silicon family, H100 and H200 another: scores on five
  targets are two looks at the model, not five.
- SGLang and vLLM run kernels on Blackwell (trtllm-gen) that no older part ever ran. They are
  predicted from the nearest family that older parts did run, labelled "assumed", with an
  interval as wide as families of kernels differ on the GPUs that were trained on.
- **Clocks that last.** A multiply of milliseconds loses a part of its clock where a part has few
  watts for its rate and clock; A100 (none), H100 (a tenth) and L40S (a quarter) show it. How it
  goes on to other parts rests on the cube-root law of power and on energies of a FLOP by
  process, both assumed.
- The parameters never saw the targets, but the forms and the priors were chosen while errors
  on them were in view. Expect a little worse on silicon that comes later."""
INTERVALS = """The 90 % interval of an op is made of what its family shares (Student's t, since
two or three families were seen), what the parameters leave open, and what is the op's own (from
the 5 and 95 % points of residuals, whose tails are heavier than a normal's). Of the last, what
neighbouring shapes share is told from what they do not by their residuals: in a workload all
parts but what not even neighbours share are common to the ops of a class. Inside a family what
neighbours do not share is what transfer leaves, at most in full on both sides. Spreads come from
training GPUs. "Same family" is transfer such as H100 to H200, "across" such as H100 to B200.
All three splits of the protocol; cells are op class x precision x target."""
ELSEWHERE = """Each framework's own kernels, all tiers together: pooled coverage and median APE; (!)
marks coverage outside 85 to 95. The forms were chosen on TensorRT-LLM's kernels; where a
framework ran none of a library's kernels on the older parts, another's rows teach them."""
SPEC_ONLY = "Nothing measured on the target. vLLM's `fp8_block` GEMM is left out: its times\
 are the host's."
EXPERIMENT = """H200 left out of the fit; the same silicon with HBM x1.43. Median time ratio over
all GEMMs with m <= 16 and n k >= 64 M, and the control m >= 4096:"""
EVERY = """TensorRT-LLM, fitted on A100, H100 and L40S. Rows where the roofline or the ratio
is closer are marked with *."""
REASONS = """Why:

- **Collectives on Blackwell**: floors of small messages rise by half from Hopper to Blackwell
  and fell by as much from Ampere to Hopper, in every library and version; no data sheet says
  so. The model expects the middle and an interval that holds both. What only Hopper measured
  (DeepEP) is corrected by what Hopper's links do in NCCL against Ampere's.
- **The roofline on collectives**: it takes L40S, whose floors over PCIe are those of the new
  parts, as seriously as H100; its floors are closer on Blackwell, and 20 to 50 % off on H200.
- **`moe_a2a` on GB200 and GB300**: its two-sided dispatch most likely waits for the host, which
  is one that no older part had; its smallest times are 2.5 times those on B200.
- **`fp8_block` on Blackwell**: its kernels scale in hardware, Hopper's in software. The multiply
  takes the rates of bf16 there; the cast of its inputs stays Hopper's, which is slower than
  Blackwell's on long k and faster on small shapes.
- **Long multiplies on GB200 and GB300**: GB300 is 18 to 22 % faster than GB200 in the largest bf16
  GEMMs (1.4 against 1.2 kW), GB200 3 to 7 % faster than B200 (1.2 against 1.0 kW, 8 % more SMs x
  clock); no one law of watts gives both, and nothing on a data sheet tells them apart. In vLLM's
  tables GB200 takes 1.25 times as long as B200: that machine was held back.
- **MoE of SGLang and vLLM on Blackwell** runs trtllm-gen kernels, which no part of the training
  set can: TensorRT-LLM's CUTLASS kernels stand in, measured on H100 and L40S.
- **`nvfp4`** is predicted from fp8 at the fp4 peak: no training GPU has the precision.
- **Transfer across families** hardly beats spec-only: the residual of an op on Hopper says
  little about the one on Blackwell, where the kernels are others."""


def median(values: Sequence[float] | np.ndarray) -> float:
    """Median of some numbers; NaN of none."""
    return float(np.median(values)) if len(values) else float("nan")


def class_of(row: BacktestRow) -> str:
    """Op class that a score is pooled in."""
    kind = row.op_class.split()[0]
    return kind if kind in CLASSES else "collective"


def tier_of(row: BacktestRow) -> str:
    """Spec-only, or how near the source is."""
    if row.source is None:
        return "spec-only"
    near = _FAMILY.get(row.source, "blackwell") == _FAMILY.get(row.target, "blackwell")
    return "same family" if near else "across"


def _pooled(rows: Sequence[BacktestRow], value: Callable[[BacktestRow], float]) -> float:
    return float(np.average([value(r) for r in rows], weights=[r.n for r in rows]))


def coverage(rows: Sequence[BacktestRow], done: Sequence[WorkloadBacktestRow]) -> list[str]:
    """Pooled coverage of every class and tier, then of whole workloads."""
    table = ["| op class | tier | cells | n | median APE | coverage | cells below 80 |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name in CLASSES:
        for tier in ("all", "spec-only", "same family", "across"):
            some = [r for r in rows if class_of(r) == name and tier in ("all", tier_of(r))]
            if not some:
                continue
            share = 100 * _pooled(some, lambda r: r.coverage_90)
            error = 100 * _pooled(some, lambda r: r.median_ape)
            low = sum(r.coverage_90 < 0.8 for r in some)
            mark = "" if tier != "all" or 85 <= share <= 95 else " (outside 85 to 95)"
            table.append(f"| {name} | {tier} | {len(some)} | {sum(r.n for r in some):,} | "
                         f"{error:.1f} | {share:.0f}{mark} | {low} |")  # fmt: skip
    if done:
        inside = sum(r.covered for r in done)
        share = 100 * inside / len(done)
        mark = "" if 85 <= share <= 95 else " (outside 85 to 95)"
        error = 100 * median([abs(r.error) for r in done])
        table.append(f"| whole workloads | transfer | {len(done)} | {len(done)} | {error:.1f} | "
                     f"{share:.0f}{mark} | - |")  # fmt: skip
    return table


def coverage_elsewhere(found: dict[str, Backtest]) -> list[str]:
    """Pooled coverage of every class in each framework, all tiers together."""
    heads = ["op class", *(TITLES[framework] for framework in found)]
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in CLASSES:
        cells = []
        for scores in found.values():
            some = [r for r in scores.ops if class_of(r) == name]
            share = 100 * _pooled(some, lambda r: r.coverage_90) if some else float("nan")
            error = 100 * _pooled(some, lambda r: r.median_ape) if some else float("nan")
            mark = "" if 85 <= share <= 95 else " (!)"
            cells.append(f"{share:.0f}{mark}, error {error:.0f}" if some else "-")
        table.append(f"| {name} | {' | '.join(cells)} |")
    cells = []
    for scores in found.values():
        inside, n = sum(r.covered for r in scores.workloads), len(scores.workloads)
        error = 100 * median([abs(r.error) for r in scores.workloads])
        mark = "" if 0.85 * n <= inside <= 0.95 * n else " (!)"
        cells.append(f"{100 * inside / max(n, 1):.0f}{mark}, error {error:.1f}")
    return [*table, f"| whole workloads | {' | '.join(cells)} |"]


def _error(rows: Sequence[BacktestRow]) -> str:
    parts = [np.mean([getattr(r, a) for r in rows]) for a in ("median_ape", "mape", "bias")]
    return f"{100 * parts[0]:.1f}/{100 * parts[1]:.1f} ({100 * parts[2]:+.0f})"


def _roofline(rows: Sequence[BacktestRow]) -> str:
    known = [r for r in rows if r.fitted_roofline_median_ape is not None]
    if not known:
        return "-"
    error = [np.mean([r.fitted_roofline_median_ape for r in known]),
             np.mean([r.fitted_roofline_mape for r in known])]  # fmt: skip
    return f"{100 * error[0]:.1f}/{100 * error[1]:.1f}"


def first_fit(rows: Iterable[BacktestRow]) -> list[BacktestRow]:
    """Scores of the fits on A100, H100 and L40S."""
    return [r for r in rows if "h200-sxm" not in r.trained_on and r.target != "h100-sxm"]


def spec_only(found: dict[str, list[BacktestRow]]) -> list[str]:
    """Class x precision by target, mean over the frameworks that measured it."""
    cells: dict[tuple[str, str], dict[str, list[BacktestRow]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for rows in found.values():
        for row in first_fit(rows):
            if row.source is None:
                cells[row.op_class, row.precision][row.target].append(row)
    table = [f"| op class | precision | method | {' | '.join(TARGETS)} |",
             "|---|---|---|" + "---|" * len(TARGETS)]  # fmt: skip
    for (name, precision), by_target in sorted(cells.items(), key=_order):
        for method, text in (("codesign", _error), ("roofline", _roofline)):
            shown = [text(by_target[t]) if by_target[t] else "-" for t in TARGETS]
            table.append(f"| {name} | {precision or '-'} | {method} | {' | '.join(shown)} |")
    return table


def _order(item: tuple[tuple[str, str], object]) -> tuple[int, str, str]:
    (name, precision), _ = item
    first = name.split()[0]
    return CLASSES.index(first if first in CLASSES else "collective"), name, precision


def losses(rows: Sequence[BacktestRow]) -> list[str]:
    """Cells where a simpler method is closer, and where intervals are far too narrow."""
    kinds = {
        "roofline closer (spec-only)": lambda r: (
            r.source is None and (r.fitted_roofline_median_ape or 9.9) < r.median_ape
        ),
        "roofline closer (transfer)": lambda r: (
            r.source is not None and (r.fitted_roofline_median_ape or 9.9) < r.median_ape
        ),
        "ratio closer (transfer)": lambda r: (r.ratio_median_ape or 9.9) < r.median_ape,
        "coverage below 70": lambda r: r.coverage_90 < 0.7,
        "bias over 15": lambda r: abs(r.bias) > 0.15,
    }
    table = ["| what | cells | of | where (median APE, that of the other) |", "|---|---|---|---|"]
    for what, rule in kinds.items():
        asked = [r for r in rows if ("spec-only" in what) == (r.source is None)
                 or "(" not in what]  # fmt: skip
        hit = [r for r in asked if rule(r)]
        named: dict[str, list[str]] = defaultdict(list)
        for r in hit:
            named[" ".join(f"{r.op_class} {r.precision}".split())].append(_short(r, what))
        where = "; ".join(f"{k}: {', '.join(sorted(set(v)))}" for k, v in named.items())
        table.append(f"| {what} | {len(hit)} | {len(asked)} | {where or '-'} |")
    return table


def _short(row: BacktestRow, what: str) -> str:
    target = row.target.removesuffix("-sxm").upper()
    if what.startswith("coverage"):
        return f"{target} {100 * row.coverage_90:.0f}"
    if what.startswith("bias"):
        return f"{target} {100 * row.bias:+.0f}"
    other = row.ratio_median_ape if what.startswith("ratio") else row.fitted_roofline_median_ape
    return f"{target} {100 * row.median_ape:.0f}, {100 * (other or 0):.0f}"


def _row_order(r: BacktestRow) -> tuple[tuple[int, str, str], int, str]:
    cell = _order(((r.op_class, r.precision), None))
    return cell, TARGETS.index(r.target), r.source or ""


def every(rows: Sequence[BacktestRow]) -> list[str]:
    """Every score of the fits on A100, H100 and L40S."""
    heads = [
        "op class",
        "precision",
        "target",
        "from",
        "n",
        "codesign",
        "coverage",
        "roofline",
        "ratio",
    ]
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for r in sorted(first_fit(rows), key=_row_order):
        others = [r.fitted_roofline_median_ape, r.ratio_median_ape]
        star = " *" if any(o is not None and o < r.median_ape for o in others) else ""
        shown = ["-" if o is None else f"{100 * o:.1f}" for o in others]
        table.append(f"| {r.op_class} | {r.precision or '-'} | {r.target} | "
                     f"{r.source or 'spec-only'} | {r.n} | {_error([r])}{star} | "
                     f"{100 * r.coverage_90:.0f} | {' | '.join(shown)} |")  # fmt: skip
    return table
