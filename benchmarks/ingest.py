"""Speed and memory of reading Kineto traces: a synthetic trace, scaled to a size.

    python benchmarks/ingest.py --mb 100 [--repeat 3] [--keep FOLDER] [--hta PYTHON]

The trace has the mix of a training step captured with shapes and call stacks: Python
frames, operators, launches, kernels, flows and collectives; plain and packed. Each reader
runs in a process of its own, pinned to one core, so that its CPU time and peak memory are
its own; of several runs the fastest counts. Imports of pandas, NumPy and Arrow are not
counted, those of the reader are. ``--hta`` runs HolisticTraceAnalysis (load plus temporal
breakdown) in turn with us, by an interpreter that has it:

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0 'pandas<3'
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPS = (
    ("aten::mm", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
     "_execute_segment_k_off_kernel__5x_cublas", "[[8192, 4096], [4096, {n}]]",
     '["c10::BFloat16", "c10::BFloat16"]', 410.2),
    ("aten::_flash_attention_forward", "void pytorch_flash::flash_fwd_kernel<pytorch_flash::"
     "Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>",
     "[[2, 4096, 32, 128], [2, 4096, 8, 128], [2, 4096, 8, 128], [], [], [], [], [], []]",
     '["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "", "", "Scalar", "Scalar", "Scalar",'
     ' "Scalar"]', 310.5),
    ("aten::mul", "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<"
     "c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>"
     " >, std::array<char*, 3ul> >(int, at::native::BinaryFunctor<c10::BFloat16>)",
     "[[2, 4096, {n}], [2, 4096, {n}]]", '["c10::BFloat16", "c10::BFloat16"]', 31.7),
    ("aten::native_layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm"
     "_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*)",
     "[[2, 4096, 4096], [], [4096], [4096], []]",
     '["c10::BFloat16", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"]', 22.1),
)  # fmt: skip
_FRAMES = 12
_CALLS_PER_STEP = 2000
_BASE_US = 1_414_456_661_601.577


def events() -> Iterator[str]:
    """Events without end, in the exporter's layout."""
    host = device = _BASE_US
    number = 0
    while True:
        step = number // _CALLS_PER_STEP
        if number % _CALLS_PER_STEP == 0:
            args = f'"External id": {10_000_000 + step}'
            length = _CALLS_PER_STEP * 200.0 - 1
            yield _x("user_annotation", f"ProfilerStep#{step}", 17, 17, host, length, args)
        op, kernel, dims, types, length = _OPS[number % len(_OPS)]
        for frame in range(_FRAMES):
            yield _x("python_function", f"torch/nn/modules/module.py({1500 + frame * 37}): "
                     f"_wrapped_call_impl_{frame}", 17, 17, host + frame, 150.0 - frame,
                     f'"Python parent id": {number * 20 + frame}, "Python id": '
                     f'{number * 20 + frame + 1}, "Ev Idx": {number * 20 + frame}')  # fmt: skip
        shape = dims.replace("{n}", str(4096 * (1 + number % 5)))
        concrete = '"", "", "", "", "", "4096", "4096", "0.", "True"'
        for depth, name in enumerate(("aten::linear", "aten::matmul", op)):
            yield _x("cpu_op", name, 17, 17, host + 20 + depth, 60.0 - 2 * depth,
                     f'"External id": {number * 4 + depth}, "Record function id": 0, '
                     f'"Concrete Inputs": [{concrete}], "Input type": {types}, '
                     f'"Input Strides": {shape}, "Input Dims": {shape}, '
                     f'"Ev Idx": {number * 4 + depth}')  # fmt: skip
        launch = host + 30
        args = f'"External id": {number * 4 + 2}, "cbid": 211, "correlation": {number}'
        yield _x("cuda_runtime", "cudaLaunchKernel", 17, 17, launch, 5.25, args)
        device = max(device, launch + 8)
        extra, stream = "", 7
        if number % 50 == 49:
            kernel, length, stream = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", 500.0, 40
            extra = (', "Collective name": "allreduce", "In msg nelems": 67108864, '
                     '"Out msg nelems": 67108864, "Group size": 8, "dtype": "BFloat16", '
                     '"Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"')  # fmt: skip
        length = length / 2
        yield _x("kernel", kernel, 0, stream, device, length,
                 f'"External id": {number * 4 + 2}, "queued": 0, "device": 0, "context": 1, '
                 f'"stream": {stream}, "correlation": {number}, "registers per thread": 168, '
                 f'"shared memory": 213504, "blocks per SM": 1.0, "warps per SM": 12.0, '
                 f'"grid": [132, 1, 1], "block": [384, 1, 1], "est. achieved occupancy %": 19'
                 + extra)  # fmt: skip
        if stream == 7:
            device += length + 1
        for phase, ts, tid in (("s", launch, 17), ("f", device, 7)):
            yield (f'{{"ph": "{phase}", "id": {number}, "pid": 17, "tid": {tid}, "ts": {ts:.3f}, '
                   '"cat": "ac2g", "name": "ac2g"}')  # fmt: skip
        host += 200
        number += 1


def _x(cat: str, name: str, pid: int, tid: int, ts: float, dur: float, args: str) -> str:
    head = f'"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}'
    times = f'"ts": {ts:.3f}, "dur": {dur:.3f}'
    return f'{{\n    {head},\n    {times},\n    "args": {{\n      {args}\n    }}\n  }}'


def write_trace(path: Path, size: int) -> None:
    """Write a trace of about ``size`` bytes of JSON; gzip if the name ends in .gz."""
    written = 0
    zipped = path.suffix == ".gz"
    with gzip.open(path, "wb", compresslevel=1) if zipped else path.open("wb") as out:
        out.write(b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": '
                  b'"NVIDIA H100 80GB HBM3"}], "distributedInfo": {"rank": 0, "world_size": 8},'
                  b'\n"traceEvents": [\n  ')  # fmt: skip
        for i, event in enumerate(events()):
            data = (",\n  " * (i > 0) + event).encode()
            out.write(data)
            written += len(data)
            if written > size:
                break
        out.write(b'\n],\n"traceName": "synthetic.json", "displayTimeUnit": "ms"}\n')


def _codesign(path: str, out: str) -> None:
    from codesign.sources.kineto import read_kineto

    read_kineto(path).save(out)


def _hta(path: str, _out: str) -> None:
    from hta.trace_analysis import TraceAnalysis

    TraceAnalysis(trace_files={0: path}).get_temporal_breakdown(visualize=False)


@dataclass(frozen=True)
class Run:
    """CPU seconds of one read, and the peak MiB of its process."""

    cpu_s: float
    peak_mib: float


def _measure(reader: str, path: Path, python: str) -> Run:
    """One reader alone in a process, on one core."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import runpy, resource, time, warnings\n"
            "warnings.simplefilter('ignore')\n"
            f"m = runpy.run_path({str(Path(__file__).resolve())!r})\n"
            "import numpy, pandas, pyarrow.parquet\n"
            "b = time.process_time()\n"
            f"m[{'_' + reader!r}]({str(path)!r}, {folder + '/c.parquet'!r})\n"
            "print(time.process_time() - b, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        if reader == "hta":
            code = code.replace(", pyarrow.parquet", "")
        root = str(Path(__file__).resolve().parent.parent)
        done = subprocess.run(
            [python, "-c", code], check=True, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL if reader == "hta" else None,
            env={**os.environ, "PYTHONPATH": root}, preexec_fn=_pin,
        )  # fmt: skip
    cpu_s, peak = map(float, done.stdout.split()[-2:])
    return Run(cpu_s, peak / 1024)


def _best(runs: list[Run]) -> Run:
    return Run(min(r.cpu_s for r in runs), max(r.peak_mib for r in runs))


def _pin() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main() -> None:
    """Write the trace, run the readers in turn, print one line each and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=100.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the traces, to use them again")
    parser.add_argument("--hta", metavar="PYTHON", help="interpreter with HolisticTraceAnalysis")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        plain, packed = (keep / f"trace-{options.mb:g}.json{end}" for end in ("", ".gz"))
        for path in (plain, packed):
            if not path.exists():
                write_trace(path, int(options.mb * 1e6))
        kinds = {"codesign": ("codesign", plain, sys.executable),
                 "codesign, gzip": ("codesign", packed, sys.executable)}  # fmt: skip
        if options.hta:
            kinds["HTA"] = ("hta", plain, options.hta)
        runs: dict[str, list[Run]] = {name: [] for name in kinds}
        for _ in range(options.repeat):
            for name, kind in kinds.items():
                runs[name].append(_measure(*kind))
    best = {name: _best(found) for name, found in runs.items()}
    for name, run in best.items():
        print(f"{name:15s} {options.mb:6.0f} MB  {run.cpu_s:7.2f} s CPU  "
              f"{options.mb / run.cpu_s:7.1f} MB/s  peak {run.peak_mib:6.0f} MiB")  # fmt: skip
    ours = best["codesign"].cpu_s
    print(f"gzip adds {best['codesign, gzip'].cpu_s / ours - 1:.1%}")
    if options.hta:
        print(f"{best['HTA'].cpu_s / ours:.1f} times as fast as HTA")


if __name__ == "__main__":
    main()
