"""What Kineto's event categories mean, over its versions and back ends. Data, no code.

Names are in lower case: PyTorch 1.8 wrote ``Kernel``, ``Operator``, ``Runtime``.
"""

from __future__ import annotations

KERNEL, MEMCPY, MEMSET, LAUNCH, OP, ANNOTATION, IGNORED = range(7)

CATEGORIES: dict[str, int] = {
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "mtia_ccp_events": KERNEL,
    "hpu_op": KERNEL,
    "gpu_memcpy": MEMCPY,
    "memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
    "cuda_runtime": LAUNCH,
    "cuda_driver": LAUNCH,
    "runtime": LAUNCH,
    "hip_runtime": LAUNCH,
    "hip_driver": LAUNCH,
    "xpu_runtime": LAUNCH,
    "xpu_driver": LAUNCH,
    "mtia_runtime": LAUNCH,
    "privateuse1_runtime": LAUNCH,
    "privateuse1_driver": LAUNCH,
    "glow_runtime": LAUNCH,
    "cpu_op": OP,
    "operator": OP,
    "user_annotation": ANNOTATION,
    # Copies of host annotations on the device's time line: never device time.
    "gpu_user_annotation": IGNORED,
    "python_function": IGNORED,
    "cpu_instant_event": IGNORED,
    "ac2g": IGNORED,
    "async": IGNORED,
    "async_cpu_to_gpu": IGNORED,
    "fwdbwd": IGNORED,
    "forward_backward": IGNORED,
    "cuda_sync": IGNORED,
    "cuda_event": IGNORED,
    "cuda_profiler_range": IGNORED,
    "external_correlation": IGNORED,
    "overhead": IGNORED,
    "trace": IGNORED,
    "mtia_insight": IGNORED,
    "collective_comm": IGNORED,
    "gpu_pm_counter": IGNORED,
    "": IGNORED,
}
"""Categories that are not here are listed once in a warning and left out."""

# A runtime call with one of these in its name asks the device for a kernel; a call
# that runs a host function does not.
LAUNCH_MARKS = ("launch", "enqueuecommandbuffer", "commandbufferenqueue")
NOT_LAUNCH_MARKS = ("launchhostfunc", "launchattribute", "getlaunch")
GRAPH_LAUNCH_MARKS = ("graphlaunch", "enqueuecommandbuffer", "commandbufferenqueue")
# Between these calls a process records a graph: what it launches runs only with the graph.
CAPTURE_BEGIN_MARKS = ("streambegincapture",)
CAPTURE_END_MARKS = ("streamendcapture",)
