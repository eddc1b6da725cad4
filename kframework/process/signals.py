"""The signals that end a process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

#: Signals within this many seconds of the first one count as the same: `timeout` sends one to the process and one to
#: its group.
REPEAT_WINDOW = 0.1


@contextmanager
def handle_signals(first: Callable[[], None]) -> Iterator[None]:
    """Call back in the loop at the first SIGTERM or SIGINT, and exit the process with code 1 at the second.

    The second one does not wait for the loop, which may be what hangs. Two at once count as one.
    """
    loop = asyncio.get_running_loop()
    received: list[float] = []

    def receive(number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if not received:
            received.append(now)
            loop.call_soon_threadsafe(first)
        elif now >= received[0] + REPEAT_WINDOW:
            os._exit(1)

    before = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
