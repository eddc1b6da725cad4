"""With an owner goes what it owns: after it, before it, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop, run_virtual
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.garbage_collector import GarbageCollector
from kframework.objects import ApiObject, ObjectMeta, OwnerReference, Pod, ReplicaSet, Service


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def owned(kind: type[ApiObject], name: str, *owners: str, blocks: bool = False) -> ApiObject:
    """Make an object whose uid is its name, as are those of its owners."""
    references = tuple(OwnerReference(uid=owner, name=owner, block_owner_deletion=blocks) for owner in owners)
    return kind(metadata=ObjectMeta(name=name, namespace="default", uid=name, owner_references=references))


@asynccontextmanager
async def collect_errors(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    memory = MemoryCluster(LoopClock(asyncio.get_running_loop()), objects)
    running = asyncio.ensure_future(GarbageCollector(memory).run())
    await asyncio.sleep(1)
    yield memory
    running.cancel()
    await asyncio.wait([running])


def names(memory: MemoryCluster) -> list[str]:
    return [each.metadata.name for kind in (Service, ReplicaSet, Pod) for each in memory.objects(kind)]


async def test_dependents_are_deleted_after_their_owner() -> None:
    chain = [owned(Service, "top"), owned(ReplicaSet, "set", "top"), owned(Pod, "a", "set"), owned(Pod, "b")]
    async with collect_errors(*chain) as memory:
        memory.remove(Service, "top", policy="Background")
        assert names(memory) == ["set", "a", "b"]
        await asyncio.sleep(1)
        assert names(memory) == ["b"]


async def test_dependent_with_another_owner_only_loses_its_reference() -> None:
    async with collect_errors(owned(Service, "one"), owned(Service, "two"), owned(Pod, "a", "one", "two")) as memory:
        memory.remove(Service, "one")
        await asyncio.sleep(1)
        assert [each.uid for each in memory.read(Pod, "a").metadata.owner_references] == ["two"]
        memory.remove(Service, "two")
        await asyncio.sleep(1)
        assert names(memory) == []


async def test_orphaned_dependents_lose_their_owner() -> None:
    async with collect_errors(owned(Service, "top"), owned(Pod, "a", "top")) as memory:
        memory.remove(Service, "top", policy="Orphan")
        assert memory.read(Service, "top").metadata.finalizers == ("orphan",)
        await asyncio.sleep(1)
        assert names(memory) == ["a"]
        assert memory.read(Pod, "a").metadata.owner_references == ()


async def test_foreground_deletion_deletes_blocking_dependents_first() -> None:
    chain = [owned(Service, "top"), owned(ReplicaSet, "set", "top", blocks=True), owned(Pod, "a", "set", blocks=True)]
    held = replace(chain[2], metadata=replace(chain[2].metadata, finalizers=("example.com/waits",)))
    async with collect_errors(*chain[:2], held) as memory:
        memory.remove(Service, "top", policy="Foreground")
        await asyncio.sleep(1)
        assert names(memory) == ["top", "set", "a"]
        assert memory.read(ReplicaSet, "set").metadata.finalizers == ("foregroundDeletion",)
        memory.merge(Pod, "a", {"metadata": {"finalizers": []}})
        await asyncio.sleep(1)
        assert names(memory) == []


async def test_foreground_deletion_does_not_wait_for_other_dependents() -> None:
    dependent = owned(Pod, "a", "top")
    held = replace(dependent, metadata=replace(dependent.metadata, finalizers=("example.com/waits",)))
    async with collect_errors(owned(Service, "top"), held) as memory:
        memory.remove(Service, "top", policy="Foreground")
        await asyncio.sleep(1)
        assert names(memory) == ["a"]
        assert memory.read(Pod, "a").metadata.deletion_timestamp is not None


async def test_dependents_of_an_unknown_owner_stay() -> None:
    async with collect_errors(owned(Pod, "a", "unknown")) as memory:
        await asyncio.sleep(1)
        assert names(memory) == ["a"]


async def test_new_kinds_are_watched_too() -> None:
    async with collect_errors() as memory:
        memory.add(owned(Service, "top"))
        memory.add(owned(ReplicaSet, "set", "top"))
        memory.remove(Service, "top")
        await asyncio.sleep(1)
        assert names(memory) == []


@given(
    st.lists(st.tuples(st.integers(0, 7), st.booleans()), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["Background", "Foreground", "Orphan"])), max_size=4),
)
def test_remaining_objects_have_an_owner_or_never_lost_one(
    parents: list[tuple[int, bool]], deletions: list[tuple[int, str]]
) -> None:
    """Each object's owner is one that came before it, or none where that is not."""

    async def main() -> None:
        objects = [
            owned(Service, f"s{place}", *([f"s{parent}"] if parent < place else []), blocks=blocks)
            for place, (parent, blocks) in enumerate(parents)
        ]
        async with collect_errors(*objects) as memory:
            for number, policy in deletions:
                if memory.find(Service, f"s{number}") is not None:
                    memory.remove(Service, f"s{number}", policy=policy)
                await asyncio.sleep(1)
            left = {each.metadata.uid: each for each in memory.objects(Service)}
            assert all(each.metadata.deletion_timestamp is None for each in left.values())
            owners = {owner.uid for each in left.values() for owner in each.metadata.owner_references}
            assert owners <= left.keys()
            remaining = _kept(parents, deletions)
            assert set(left) == remaining

    run_virtual(main)


def _kept(parents: list[tuple[int, bool]], deletions: list[tuple[int, str]]) -> set[str]:
    """Work out slowly what is left."""
    owner = {place: parent for place, (parent, _) in enumerate(parents) if parent < place}
    left = set(range(len(parents)))
    for number, policy in deletions:
        if number not in left:
            continue
        if policy == "Orphan":
            owner = {place: parent for place, parent in owner.items() if parent != number}
        left.discard(number)
        while lost := {place for place in left if place in owner and owner[place] not in left}:
            left -= lost
    return {f"s{place}" for place in left}
