"""Worker process: reads the files that it is asked for, one after another, until its input ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from codesign._common.errors import CodesignError
from codesign._common.text import encodable
from codesign.sources.kineto._wire import Reply, Request, pack, receive, send
from codesign.sources.kineto.capture import Options, read_capture


def _answer(request: Request) -> Reply:
    options = Options(request.allow_truncated, request.repair, request.system)
    try:
        return pack(read_capture(Path(os.fsdecode(request.path)), options))
    except CodesignError as error:
        return Reply(error=encodable(str(error)), exit_code=error.exit_code)


def main() -> None:
    """Serve requests from standard input on standard output."""
    # What a library prints must not get in between the answers.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        while (data := receive(sys.stdin.buffer)) is not None:
            send(output, _answer(msgspec.msgpack.decode(data, type=Request)))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)  # the parent is gone, or about to go


if __name__ == "__main__":
    main()
