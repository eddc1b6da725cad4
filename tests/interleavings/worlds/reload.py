"""A reload: another program comes while a session of the batch engine is open, gangs are bound, and victims leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache, partial

import anyio
from kframework_batch.config import parse
from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import PodGroup
from kframework_batch.program import Program, compile_program, core_registry
from kframework_batch.settings import ProgramSettings
from kframework_batch.testing import make_gang, make_queue
from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import LoopClock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import Pod
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node
from tests.faults.batch_world import leftovers, lost
from tests.faults.invariants import ApiChecker
from tests.interleavings.delayed_cluster import DelayedCluster
from tests.interleavings.stage import DISORDER, this_loop

__all__ = ["reload"]

#: How long all is quiet before the books are closed, in seconds: a gang that is broken is sent away after 60 s.
QUIET = 200.0


async def reload() -> list[str]:
    """Let two elastic gangs of one queue use the room of another; only one of two programs lets that take it back."""
    loop = this_loop()
    clock = LoopClock(loop)
    store = MemoryCluster(clock)
    books = ApiChecker(store)
    queues = make_queue("lender", weight=1), make_queue("owner", weight=1)
    gangs = make_gang("first", 2, minimum=1, queue="lender"), make_gang("second", 2, minimum=1, queue="lender")
    store.load([make_node("a", cpu=2), make_node("b", cpu=2), *queues])
    store.load([each for group, pods in gangs for each in (group, *pods)])

    lends, takes_back = (ProgramSettings(program) for program in _programs())
    client = DelayedCluster(store, at_once=("record_event", "patch_pod_status", "patch_status"))
    scheduler = Scheduler(
        lends.configuration, client, clock, registry=core_registry(), slice=0.0, engine=lends.engine_factory()
    )

    def come() -> None:
        group, pods = make_gang("third", 2, queue="owner")
        store.load([group, *pods])

    def kubelet(change: Change) -> None:
        pod = change.new
        if not isinstance(pod, Pod):
            return
        name, uid = pod.metadata.name, pod.metadata.uid
        if pod.metadata.deletion_timestamp is not None:
            loop.offer(f"kubelet {name}", (f"{name} ends", partial(_remove, store, name, uid)), awaited=False)
        elif pod.spec.node_name and pod.status.phase == "Pending":
            loop.offer(f"kubelet {name}", (f"{name} runs", partial(_run, store, name, uid)))

    store.subscribe([Pod], kubelet)
    for settings, label in ((takes_back, "what lets queues take back"), (lends, "what does not"), (takes_back, "it")):
        give = partial(scheduler.engine.reload, settings.program)
        loop.offer("the file", (f"{label} is in force", give), awaited=False)
    loop.offer("a user", ("a gang of the owner comes", come), awaited=False)
    loop.offer("another user", ("a pod is deleted", partial(_remove, store, "second-0", "")), awaited=False)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await asyncio.sleep(DISORDER)
        loop.settling = True
        await asyncio.sleep(QUIET)
        found = [*books.problems, *leftovers(scheduler.engine), *_unserved(store), *lost(scheduler.engine, store)]
        scheduler.stop()
    return [*found, *(f"{task!r} is left" for task in asyncio.all_tasks() if task is not asyncio.current_task())]


@cache
def _programs() -> tuple[Program, Program]:
    """Compile both: they score otherwise, too, so that the core's plugins are created again."""
    return (
        _program("enqueue, allocate, backfill", "nodeorder"),
        _program("enqueue, allocate, reclaim, backfill", "binpack"),
    )


def _program(actions: str, scores: str) -> Program:
    plugins = [{"name": name} for name in ("priority", "gang", "conformance", "predicates", "proportion", scores)]
    return compile_program(parse(json.dumps({"actions": actions, "tiers": [{"plugins": plugins}]})))


def _remove(store: MemoryCluster, name: str, uid: str) -> None:
    if store.find(Pod, name, "default") is not None:
        store.remove(Pod, name, uid=uid, grace=0)


def _run(store: MemoryCluster, name: str, uid: str) -> None:
    """Let a pod run: only those that do are victims."""
    pod = store.find(Pod, name, "default")
    if pod is not None and pod.metadata.uid == uid:
        store.set_status(pod, replace(pod.status, phase="Running"))


def _unserved(store: MemoryCluster) -> Iterator[str]:
    """Complain of gangs with only some pods on nodes, and of room that stays free though a gang waits."""
    pods = [pod for pod in store.objects(Pod) if not has_ended(pod)]
    free = 4 - sum(bool(pod.spec.node_name) for pod in pods)
    for group in store.objects(PodGroup):
        name, minimum = group.metadata.name, group.spec.min_member
        own = [pod for pod in pods if pod.metadata.annotations[GROUP_NAME] == name]
        placed = sum(bool(pod.spec.node_name) for pod in own)
        if 0 < placed < min(minimum, len(own)):
            yield f"{placed} pods of {name} have a node, and {minimum} are to have one"
        if placed == 0 and minimum <= min(len(own), free):
            yield f"{name} waits, though there is room for {free} pods"
        if placed == 0 and minimum <= len(own) and group.spec.queue == "owner":
            yield f"{name} waits, though its queue may take back what it is owed"
