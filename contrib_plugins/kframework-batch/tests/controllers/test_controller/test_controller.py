"""The loop: what changes is looked at, what fails is tried again, and one bad subject never stops the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from kframework_batch.controllers.controller import Reconciler

from kframework.clock import VIRTUAL_EPOCH, LoopClock, VirtualTimeLoop
from kframework.engine import Message, Synced, Upserted
from kframework.errors import ClusterError
from kframework.framework.plugin import Watch
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Pod
from kframework.testing import make_pod


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class Annotator(Reconciler):
    """Annotates all pods without labels; remembers when it looked at which."""

    watches: ClassVar[tuple[Watch, ...]] = (Watch(Pod),)

    def __init__(self, cluster: MemoryCluster, clock: LoopClock) -> None:
        super().__init__(cluster, clock)
        self.looks: list[tuple[float, str]] = []
        self.idled: list[float] = []
        self.on_idle = lambda: self.idled.append(self._seconds())

    def permanent_subjects(self) -> Iterable[str]:
        return ("nobody",)

    def subjects(self, obj: ApiObject) -> Iterable[str]:
        return (obj.metadata.name,)

    def is_relevant(self, old: ApiObject, new: ApiObject) -> bool:
        return old.metadata.labels != new.metadata.labels

    async def reconcile(self, subject: str) -> None:
        self.looks.append((self._seconds(), subject))
        for pod in self.mirror.for_subject(subject, Pod):
            if pod.metadata.name == "odd":
                raise ValueError("odd")
            if not pod.metadata.labels:
                await self.annotate(pod, "seen", "yes")

    def _seconds(self) -> float:
        return round(self.clock.now() - VIRTUAL_EPOCH, 3)

    def of(self, subject: str) -> list[float]:
        return [at for at, looked_at in self.looks if looked_at == subject]


@asynccontextmanager
async def running(memory: MemoryCluster) -> AsyncIterator[Annotator]:
    controller = Annotator(memory, LoopClock(asyncio.get_running_loop()))
    assert not controller.idle  # before it has seen anything
    task = asyncio.ensure_future(controller.run())
    await asyncio.sleep(0.01)
    yield controller
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def in_memory(*pods: Pod) -> MemoryCluster:
    return MemoryCluster(LoopClock(asyncio.get_running_loop()), pods)


def failing(name: str, status: int, times: int) -> object:
    left = [times]

    def ask(method: str, kind: type[ApiObject], namespace: str, at: str) -> Fault | None:
        if (method, at) != ("patch", name) or not left[0]:
            return None
        left[0] -= 1
        return Fault(error=ClusterError("no", status=status))

    return ask


def is_seen(memory: MemoryCluster, name: str) -> bool:
    return memory.read(Pod, name).metadata.annotations == {"seen": "yes"}


async def test_controller_reconciles_existing_objects_and_becomes_idle() -> None:
    memory = in_memory(make_pod("a"), make_pod("b"))
    async with running(memory) as controller:
        assert is_seen(memory, "a") and is_seen(memory, "b")
        assert controller.idle and controller.idled[-1:] == [controller.idled[0]]
        assert {subject for _, subject in controller.looks} == {"a", "b", "nobody"}


async def test_only_relevant_changes_are_reconciled() -> None:
    memory = in_memory(make_pod("a", labels={"l": "1"}))
    async with running(memory) as controller:
        assert len(controller.of("a")) == 1
        memory.merge(Pod, "a", {"metadata": {"annotations": {"n": "1"}}})
        await asyncio.sleep(1)
        assert len(controller.of("a")) == 1
        memory.merge(Pod, "a", {"metadata": {"labels": {"l": "2"}}})
        await asyncio.sleep(1)
        memory.remove(Pod, "a")
        await asyncio.sleep(1)
        assert len(controller.of("a")) == 3


@pytest.mark.parametrize("status", [0, 404, 409, 429, 500])
async def test_failed_subject_is_retried_with_backoff_and_keeps_controller_busy(status: int) -> None:
    memory = in_memory(make_pod("a"), make_pod("b"))
    memory.faults.append(failing("a", status, 3))  # type: ignore[arg-type]  # a function it is
    async with running(memory) as controller:
        assert is_seen(memory, "b")
        assert not controller.idle
        await asyncio.sleep(10)
        assert is_seen(memory, "a")
        assert controller.idle
        assert controller.of("a")[:4] == [0, 0.1, 0.3, 0.7]
        assert controller.idled[-1] == pytest.approx(0.7)


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_permanently_rejected_subject_is_retried_without_keeping_controller_busy(status: int) -> None:
    memory = in_memory(make_pod("a"))
    memory.faults.append(failing("a", status, 1))  # type: ignore[arg-type]  # a function it is
    async with running(memory) as controller:
        assert controller.idle and not is_seen(memory, "a")
        await asyncio.sleep(61)
        assert is_seen(memory, "a")


async def test_subject_rejected_after_retries_no_longer_keeps_controller_busy() -> None:
    memory = in_memory(make_pod("a"))
    answers = [500, 403]
    memory.faults.append(
        lambda method, *call: (
            Fault(error=ClusterError("no", status=answers.pop(0))) if method == "patch" and answers else None
        )
    )
    async with running(memory) as controller:
        assert not controller.idle
        await asyncio.sleep(1)
        assert controller.idle and not is_seen(memory, "a")


async def test_nothing_is_reconciled_before_sync() -> None:
    class Slow(MemoryCluster):
        """A cluster whose answer takes long to come in."""

        async def watch(
            self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
        ) -> None:
            offer(Upserted(make_pod("a")))
            await asyncio.sleep(1)
            offer(Synced())
            await super().watch(kinds, offer, ended_pods=ended_pods)

    async with running(Slow(LoopClock(asyncio.get_running_loop()), [make_pod("a")])) as controller:
        assert not controller.looks and not controller.idle
        await asyncio.sleep(2)
        assert controller.of("a")[0] == 1 and controller.idle


async def test_exception_in_reconcile_affects_one_subject(caplog: pytest.LogCaptureFixture) -> None:
    memory = in_memory(make_pod("odd"), make_pod("zebra"))
    async with running(memory) as controller:
        assert is_seen(memory, "zebra")
        assert controller.idle
        assert len(controller.of("odd")) == 1
    assert "Annotator Pod default/odd is left as it is until it changes" in caplog.text


async def test_changed_subject_is_reconciled_at_once_and_its_timer_is_cancelled() -> None:
    memory = in_memory(make_pod("a"))
    memory.faults.append(failing("a", 500, 1))  # type: ignore[arg-type]  # a function it is
    async with running(memory) as controller:
        memory.merge(Pod, "a", {"metadata": {"labels": {"l": "1"}}})
        await asyncio.sleep(0.001)
        assert len(controller.of("a")) == 2 and controller.idle
        await asyncio.sleep(60)
        assert len(controller.of("a")) == 2


async def test_success_resets_the_backoff() -> None:
    memory = in_memory(make_pod("a"))
    memory.faults.append(failing("a", 500, 3))  # type: ignore[arg-type]  # a function it is
    async with running(memory) as controller:
        await asyncio.sleep(9.99)
        memory.faults[:] = [failing("a", 500, 1)]  # type: ignore[list-item]  # a function it is
        memory.merge(Pod, "a", {"metadata": {"annotations": None, "labels": {"l": "1"}}})
        memory.merge(Pod, "a", {"metadata": {"labels": None}})
        await asyncio.sleep(1)
        assert controller.of("a")[-2:] == [10, 10.1]


async def test_requeue_after_reconciles_again() -> None:
    memory = in_memory(make_pod("a"))
    async with running(memory) as controller:
        controller.requeue_after("a", 5.0)
        assert controller.idle
        await asyncio.sleep(6)
        assert controller.of("a")[-1] == pytest.approx(5.01)


async def test_writes_have_the_uid_of_the_object() -> None:
    memory = in_memory(make_pod("a", labels={"l": "1"}))
    async with running(memory) as controller:
        old = memory.read(Pod, "a")
        memory.remove(Pod, "a")
        await controller.cluster.create(make_pod("a", labels={"l": "2"}))
        with pytest.raises(ClusterError, match="immutable"):
            await controller.annotate(old, "l", "3")
        with pytest.raises(ClusterError, match="immutable"):
            await controller.patch_spec(old, {"priority": 3})
        with pytest.raises(ClusterError) as caught:
            await controller.patch_status(old, {"phase": "Failed"})
        assert caught.value.status == 409
        with pytest.raises(ClusterError) as caught:
            await controller.delete(old)
        assert caught.value.status == 409
        assert memory.read(Pod, "a").metadata.labels == {"l": "2"}
        assert not await controller.create(make_pod("a", labels={"l": "4"}))
        assert await controller.create(make_pod("b", labels={"l": "4"}))


async def test_empty_patch_makes_no_call() -> None:
    memory = in_memory(make_pod("a", labels={"l": "1"}, annotations={"a": "1"}))
    async with running(memory) as controller:
        memory.faults.append(lambda *call: Fault(error=ClusterError("no", status=500)))
        pod = memory.read(Pod, "a")
        await controller.patch_spec(pod, {})
        await controller.annotate(pod, "a", "1")
        await controller.patch_status(pod, {})
