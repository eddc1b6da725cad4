"""Queues that must exist do, and each is Open, Closing or Closed as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kframework_batch.controllers.queues import CLOSED_BY_PARENT, QueueController, next_state
from kframework_batch.objects import Command, PodGroup, PodGroupSpec, Queue, QueueSpec, QueueStatus

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, ObjectMeta, OwnerReference


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@asynccontextmanager
async def running(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    controller = QueueController(memory, clock)
    task = asyncio.ensure_future(controller.run())
    await asyncio.sleep(0.01)
    assert controller.idle
    yield memory
    assert controller.idle
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def queue(name: str, state: str = "", parent: str = "") -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent=parent), status=QueueStatus(state=state))


def group(name: str, of: str = "") -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=PodGroupSpec(queue=of))


async def states(memory: MemoryCluster) -> dict[str, str]:
    await asyncio.sleep(0.01)
    return {each.metadata.name: each.status.state for each in memory.objects(Queue)}


def operate(memory: MemoryCluster, name: str, state: str) -> None:
    memory.merge(Queue, name, {"status": {"state": state}})


@pytest.mark.parametrize(
    ("state", "in_use", "expected"),
    [
        ("", True, "Open"),
        ("Open", False, "Open"),
        ("Closed", False, "Closed"),
        ("Closed", True, "Closing"),
        ("Closing", True, "Closing"),
        ("Closing", False, "Closed"),
        ("Ajar", False, "Unknown"),
        ("Unknown", True, "Unknown"),
    ],
)
def test_next_queue_state_follows_from_state_and_use(state: str, in_use: bool, expected: str) -> None:
    assert next_state(state, in_use=in_use) == expected


async def test_root_and_default_queue_are_created_and_recreated() -> None:
    async with running() as memory:
        made = {each.metadata.name: each for each in memory.objects(Queue)}
        assert [*made] == ["root", "default"]
        assert (made["root"].spec.weight, made["root"].spec.reclaimable) == (1, False)
        assert (made["default"].spec.weight, made["default"].spec.reclaimable) == (1, True)
        memory.remove(Queue, "default")
        assert await states(memory) == {"root": "Open", "default": "Open"}


async def test_existing_queues_are_unchanged() -> None:
    mine = Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(weight=7))
    async with running(mine) as memory:
        assert memory.read(Queue, "default").spec.weight == 7
        assert await states(memory) == {"default": "Open", "root": "Open"}


async def test_status_written_by_the_scheduler_is_kept() -> None:
    status = QueueStatus(running=3, allocated={"cpu": "2"})
    async with running(Queue(metadata=ObjectMeta(name="q"), status=status)) as memory:
        found = memory.read(Queue, "q").status
        assert (found.state, found.running, found.allocated) == ("Open", 3, {"cpu": "2"})


async def test_queue_is_closing_while_it_has_pod_groups() -> None:
    async with running(queue("q"), group("g", "q"), group("h")) as memory:
        operate(memory, "q", "Closed")
        operate(memory, "default", "Closing")
        assert await states(memory) == {"q": "Closing", "root": "Open", "default": "Closing"}
        memory.remove(PodGroup, "g", "default")
        memory.merge(PodGroup, "h", {"spec": {"queue": "q"}}, "default")
        assert await states(memory) == {"q": "Closing", "root": "Open", "default": "Closed"}
        memory.remove(PodGroup, "h", "default")
        assert (await states(memory))["q"] == "Closed"
        operate(memory, "q", "Open")
        assert (await states(memory))["q"] == "Open"


async def test_queues_follow_the_state_of_their_parents_unless_closed_before() -> None:
    family = (queue("a"), queue("b", parent="a"), queue("c", parent="b"), queue("d", "Closed", parent="a"))
    async with running(*family, group("g", "c")) as memory:
        operate(memory, "a", "Closed")
        closed = {"a": "Closed", "b": "Closed", "c": "Closing", "d": "Closed", "root": "Open", "default": "Open"}
        assert await states(memory) == closed
        assert memory.read(Queue, "c").metadata.annotations == {CLOSED_BY_PARENT: "true"}
        operate(memory, "b", "Open")  # not while its parent is closed
        assert await states(memory) == closed
        operate(memory, "a", "Open")
        assert await states(memory) == dict.fromkeys(closed, "Open") | {"d": "Closed"}
        assert memory.read(Queue, "c").metadata.annotations == {CLOSED_BY_PARENT: "false"}


async def test_root_queue_cannot_be_closed_and_queue_as_its_own_parent_is_ignored() -> None:
    async with running(queue("q", parent="q")) as memory:
        operate(memory, "root", "Closed")
        operate(memory, "q", "Closed")
        assert await states(memory) == {"q": "Closed", "root": "Open", "default": "Open"}


def command(action: str, name: str) -> Command:
    target = OwnerReference(api_version="scheduling.volcano.sh/v1beta1", kind="Queue", name=name)
    return Command(metadata=ObjectMeta(name=action.lower(), namespace="default"), action=action, target=target)


async def test_commands_close_and_open_queues() -> None:
    async with running(queue("a"), queue("b"), group("g", "b")) as memory:
        memory.add(command("CloseQueue", "a"))
        assert (await states(memory))["a"] == "Closed"
        memory.add(command("CloseQueue", "b"))
        assert (await states(memory))["b"] == "Closing"
        memory.add(command("OpenQueue", "a"))
        assert (await states(memory))["a"] == "Open"
        memory.add(command("SyncQueue", "a"))
        assert (await states(memory))["a"] == "Open"
        assert memory.objects(Command) == []


async def test_root_queue_stays_open() -> None:
    async with running() as memory:
        memory.add(command("CloseQueue", "root"))
        assert (await states(memory))["root"] == "Open"
