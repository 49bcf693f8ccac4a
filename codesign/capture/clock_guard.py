"""``python -m codesign.capture.clock_guard``: lets clocks go when its parent is gone.

Its standard input tells which GPUs are to be let go, ``+INDEX`` before a lock and ``-INDEX``
where that was refused; it ends however the parent ends, by SIGKILL too, and then the clocks
are reset. Signals to the terminal do not reach it.
"""

from __future__ import annotations

import signal
import sys

from codesign.capture.nvml import open_nvml


def main() -> None:
    """Wait, then reset. Exit code 0 if every GPU's clock was let go, else 1."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    held: set[int] = set()
    for line in sys.stdin:
        index = int(line[1:])
        held = held | {index} if line.startswith("+") else held - {index}
    if not held:
        return
    with open_nvml() as nvml:
        if isinstance(nvml, str):
            sys.exit(1)
        failed = [index for index in sorted(held) if nvml.release_clock(index)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
