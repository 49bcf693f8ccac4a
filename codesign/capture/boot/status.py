"""What a captured process tells its parent: one small JSON file, replaced as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

_RESERVE_BYTES = 16384


class Status:
    """Facts about this process's capture; every change is on disk at once."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / f"status-{os.getpid()}.json"
        self._reserve = self._path.with_suffix(".reserve")
        self.facts: dict[str, Any] = {
            "pid": os.getpid(),
            "started": _start_ticks(),
            "state": "attached",
            "steps": 0,
            "program": sys.argv[0] if getattr(sys, "argv", None) else "",
        }
        self._written_s = 0.0

    def note(self, **facts: Any) -> None:
        """Change facts, on disk at most once a second: for the middle of a measurement."""
        self.facts.update(facts)
        if time.monotonic() - self._written_s > 1.0:
            self.update()

    def update(self, **facts: Any) -> bool:
        """Change facts and write; a full disk must not end the user's program.

        Returns whether it is written, so that the parent knows.
        """
        self.facts.update(facts)
        self._written_s = time.monotonic()
        try:
            try:
                self._write()
            except OSError:
                self._reserve.unlink(missing_ok=True)  # a full disk: room for saying so was kept
                self._write()
            else:
                if not self._reserve.exists():
                    self._reserve.write_bytes(b"\0" * _RESERVE_BYTES)
        except OSError as error:
            sys.stderr.write(f"codesign: cannot write to {self._path.parent}: {error}\n")
            return False
        return True

    def _write(self) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.facts), encoding="utf-8")
        temporary.replace(self._path)


def _start_ticks() -> int:
    """Start time of this process as the kernel counts it, to tell a reused pid."""
    try:
        text = Path("/proc/self/stat").read_text(encoding="utf-8")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def place() -> dict[str, Any]:
    """Rank and world, by torch.distributed where it is up, else by the launcher's variables."""
    import torch.distributed as dist

    found: dict[str, Any] = {
        "rank": _number("RANK", 0),
        "world_size": _number("WORLD_SIZE", 1),
        "local_rank": _number("LOCAL_RANK", 0),
        "backend": None,
    }
    if dist.is_available() and dist.is_initialized():
        found.update(
            rank=dist.get_rank(), world_size=dist.get_world_size(), backend=dist.get_backend()
        )
    return found


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else default


def device() -> dict[str, Any]:
    """The device in use; asks nothing of CUDA in a process that has not used it."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        index = torch.cuda.current_device()
        properties = torch.cuda.get_device_properties(index)
        return {
            "type": "cuda",
            "name": properties.name,
            "index": index,
            "uuid": str(getattr(properties, "uuid", "")),
            "sm_count": properties.multi_processor_count,
        }
    return {"type": "cpu", "name": _cpu_name(), "index": 0, "threads": torch.get_num_threads()}


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def software() -> dict[str, str]:
    """Versions of what runs."""
    import torch

    found = {"torch": str(torch.__version__), "python": platform.python_version()}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        # Builds without a library raise whatever they like.
        with contextlib.suppress(Exception):
            version = torch.cuda.nccl.version()
            found["nccl"] = version if isinstance(version, str) else ".".join(map(str, version))
        with contextlib.suppress(Exception):
            found["cudnn"] = str(torch.backends.cudnn.version())
    return found


_PREFIXES = ("NCCL_", "CUDA_", "TORCH_NCCL_", "PYTORCH_CUDA_ALLOC_CONF", "OMP_NUM_THREADS", "NVTE_")


def environment() -> dict[str, str]:
    """Variables that change how fast the workload runs; no others, they may hold secrets."""
    return {k: v[:200] for k, v in sorted(os.environ.items()) if k.startswith(_PREFIXES)}
