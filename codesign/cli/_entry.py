"""What the installed command runs: `main`, and nothing on the screen if Ctrl-C comes before it."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command line, then run it.

    Until there is somebody to say it in one line, Ctrl-C ends the process as it does a program
    that takes no signals; ignored, as in a shell's background job, it stays ignored.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from codesign.cli.main import main as run

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
