"""The loop of controllers: each key once and in turn, later where that is asked for, and again where it has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar

import pytest

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.errors import ClusterError, InputError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, WorkQueue
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod
from kframework.testing import make_pod


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class Recorder(ControlLoop):
    """Notes when it looked at which key; the first attempts fail."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod,)

    def __init__(self, failures: int, error: Exception) -> None:
        self.error = error
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = MemoryCluster(self.clock, [make_pod("a"), make_pod("b")])
        super().__init__(self.cluster, self.clock)
        self.began, self.failures = self.clock.now(), failures
        self.recorded: list[tuple[str, float]] = []

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        yield "default", change.subject.metadata.name

    def _reconcile(self, key: Key) -> None:
        self.recorded.append((key[1], round(self.clock.now() - self.began, 3)))
        if key[1] == "a" and self.failures:
            self.failures -= 1
            raise self.error


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("not now", status=409),
        InputError("not now"),
        ValueError("not now"),
        OverflowError("not now"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_failed_key_is_retried_with_backoff_and_delays_no_other(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Recorder(3, error)
    task = asyncio.ensure_future(loop.run())
    await asyncio.sleep(10)
    assert loop.recorded == [("a", 0.0), ("b", 0.0), ("a", 0.005), ("a", 0.015), ("a", 0.035)]
    assert caplog.messages == ["Recorder default/a: not now"] * 3
    assert loop.idle
    loop.cluster.remove(Pod, "b")
    await asyncio.sleep(1)
    assert loop.recorded[5:] == [("b", 10.0)]
    task.cancel()
    await asyncio.wait([task])


async def test_key_is_queued_once_for_its_earliest_time() -> None:
    queue = WorkQueue(LoopClock(asyncio.get_running_loop()))
    for name in ("a", "b", "a"):
        queue.add(("", name))
    assert [queue.pop(), queue.pop(), queue.pop()] == [("", "a"), ("", "b"), None]
    for seconds in (5, 2, 9):
        queue.add_after(("", "c"), seconds)
    assert not queue.idle and queue.pop() is None
    began = asyncio.get_running_loop().time()
    await queue.wait()  # it was told of new keys
    await queue.wait()
    assert asyncio.get_running_loop().time() - began == 2
    assert queue.pop() == ("", "c") and queue.idle
