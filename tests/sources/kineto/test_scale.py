"""A large trace in bounded memory: peaks of the process, which no machine's speed changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.kineto.traces import kernel, launch, op

KERNELS = 200_000
LONG = "void at::native::vectorized_elementwise_kernel<4, std::array<char*, 3ul> >" * 4

# Not getrusage: its peak outlives exec, so that of a large test process would count.
READ = """
import sys
from pathlib import Path
from codesign.sources.kineto import read_kineto
char = read_kineto(sys.argv[1])
totals = char.header.totals
print(totals["kernels"], totals["kernel_time_s"], char.header.quality.launch_coverage)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").open())
print(int(status["VmHWM"].split()[0]) * 1024)
"""


def _large(path: Path) -> None:
    """600,000 events: an op, a launch and a kernel of 2 us each, 4 us apart."""
    with path.open("w", encoding="utf-8") as out:
        out.write('{"schemaVersion": 1, "traceEvents": [\n')
        for i in range(KERNELS):
            ts = 4 * i
            events = (
                op(ts, 3, "aten::mul", i, [[64, 64], [64, 64]], ["float", "float"]),
                launch(ts + 1, i, dur=1, **{"External id": i}),
                kernel(ts + 2, 2, f"{LONG}{i % 50}", corr=i, **{"External id": i}),
            )
            out.write((",\n" if i else "") + ",\n".join(map(json.dumps, events)))
        out.write("\n]}\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_six_hundred_thousand_events_stay_under_450_mb(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    _large(path)
    assert path.stat().st_size > 150e6
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, check=True,
                          text=True, timeout=300)  # fmt: skip
    totals, peak_bytes = done.stdout.splitlines()
    kernels, seconds, coverage = map(float, totals.split())
    assert (kernels, coverage) == (KERNELS, 1.0)
    assert seconds == pytest.approx(2e-6 * KERNELS)
    assert int(peak_bytes) < 450e6, peak_bytes
