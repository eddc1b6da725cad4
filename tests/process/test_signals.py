"""A signal is reported once, and a second one ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from kframework.process.signals import handle_signals


def test_second_signal_ends_it_at_once_even_if_its_loop_hangs() -> None:
    code = (
        "import asyncio, itertools\n"
        "from kframework.process.signals import handle_signals\n"
        "async def main():\n"
        "    with handle_signals(lambda: print('stopping')):\n"
        "        print('ready', flush=True)\n"
        "        for _ in itertools.count(): pass\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 1


@pytest.mark.parametrize(("later", "code"), [(0.09, 0), (0.11, 1)])
def test_two_signals_at_once_are_one(later: float, code: int) -> None:
    """`timeout` sends one to the process and one to its group."""
    program = (
        "import asyncio, os, signal\n"
        "from kframework.process import signals\n"
        f"moments = iter([5.0, 5.0 + {later}])\n"
        "signals.monotonic = lambda: next(moments)\n"
        "async def main():\n"
        "    told = asyncio.Event()\n"
        "    with signals.handle_signals(told.set):\n"
        "        for _ in range(2): os.kill(os.getpid(), signal.SIGTERM)\n"
        "        await told.wait()\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == code


async def test_first_signal_is_handled_in_the_loop() -> None:
    told = asyncio.Event()
    with handle_signals(told.set):
        os.kill(os.getpid(), signal.SIGTERM)
        await told.wait()
