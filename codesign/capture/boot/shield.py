"""Signals that wait until a trace is written, and threads that end with one open."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def shielded(deliver: bool = True) -> Iterator[None]:
    """Ctrl-C and SIGTERM wait inside: launchers pass them on to ranks that got them already.

    They come after the block, or with ``deliver`` false, at the end of a process, never.
    On a thread that gets no signals it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before: dict[int, Any] = {}
    for number in _HELD:
        handler = signal.getsignal(number)
        if handler is not None:  # None: set by C code, not ours to replace
            before[number] = handler
            signal.signal(number, lambda n, _: came.append(n))
    try:
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
        if deliver:
            for one in dict.fromkeys(came):
                os.kill(os.getpid(), one)


class _Leaving:
    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def __del__(self) -> None:
        self._then()


_thread = threading.local()


def when_thread_ends(then: Callable[[], None]) -> None:
    """Call ``then`` on this thread when it ends, unless it is the main one: that has atexit."""
    if threading.current_thread() is not threading.main_thread():
        # What a thread keeps for itself is dropped by the thread itself, last of all.
        _thread.leaving = _Leaving(then)
