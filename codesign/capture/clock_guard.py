"""``python -m codesign.capture.clock_guard INDEX...``: lets clocks go when its parent is gone.

Reads its standard input until that ends, which it does however the parent ends, killed ones
included; then resets the locked clocks of the GPUs. Signals to the terminal do not reach it.
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
    sys.stdin.read()
    with open_nvml() as nvml:
        if isinstance(nvml, str):
            sys.exit(1)
        failed = [index for index in map(int, sys.argv[1:]) if nvml.release_clock(index)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
