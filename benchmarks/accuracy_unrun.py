"""What docs/accuracy.md cannot score, since no machine with a GPU has run it yet."""

from __future__ import annotations

TEXT = """## Not yet run on a GPU

Every number above comes from tables and traces that others measured. What codesign measures
itself has run on CPUs, and against stand-ins for the driver, only; so nothing here compares a
projection with a run of our own. To be run, and scored here, where there is a machine:

- `codesign characterize` of a script and of the built-in workloads on CUDA, on one GPU and under
  `torchrun` over NCCL: steps, overhead of the profiler, agreement with the clock;
- characterizations of an H200 with their conditions (clocks, power, throttling, MIG), and the
  fitted model's projections against them;
- a sweep over SM counts, by green contexts (`--sms`) and MPS (`--sm-percent`), as a natural
  experiment for `sm_count`; message and group sizes over NVLink as one for `nvlink_bandwidth`;
- `--calibrate` on a GPU that the public tables cover, held against them, and a fit with it;
- clocks held by `--lock-clock`, as an experiment for `sm_clock`.

What of it has run how is listed at the end of docs/capture.md."""
