"""What is there, what was there, and what has happened."""

from __future__ import annotations

import asyncio
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import LoopClock, run_virtual
from kframework.errors import ClusterError
from kframework.fake_api import collection as module
from kframework.fake_api.collection import Collection
from kframework.fake_api.wire.documents import ApiDocument
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Draft
from kframework.objects import Lease, LeaseSpec, ObjectMeta, kind_of


def lease(name: str, namespace: str = "default", holder: str = "a") -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace), spec=LeaseSpec(holder_identity=holder))


def cluster() -> MemoryCluster:
    return MemoryCluster(LoopClock(asyncio.get_running_loop()))


def names(collected: Collection, version: int, namespace: str = "", after: tuple[str, str] = ("", "")) -> list[str]:
    return ["/".join(document.key) for document in collected.documents_at(version, namespace, after)]


async def test_existing_objects_are_sorted() -> None:
    memory = cluster()
    for each in (lease("b"), lease("a"), lease("z", "default-2"), lease("c", "aaa")):
        memory.add(each)
    collected = Collection(kind_of(Lease), memory)
    assert names(collected, memory.version) == ["aaa/c", "default/a", "default/b", "default-2/z"]
    assert names(collected, memory.version, "default") == ["default/a", "default/b"]
    assert names(collected, memory.version, "default", ("default", "a")) == ["default/b"]
    assert names(collected, memory.version, after=("default", "a")) == ["default/b", "default-2/z"]
    assert [document.key[1] for document in collected.stored_documents()] == ["b", "a", "z", "c"]


async def test_stored_documents_change_only_by_writes() -> None:
    memory = cluster()
    memory.add(lease("a"))
    collected = Collection(kind_of(Lease), memory)
    assert list(collected.renewed_documents("")) == []
    assert collected.renewal_interval("") == math.inf


async def test_draft_keeps_unknown_fields() -> None:
    memory = cluster()
    collected = Collection(kind_of(Lease), memory)
    admitted = memory.admit(lease("a"))
    data = ApiDocument.from_struct(admitted).data | {"unknown": 1}
    stored = collected.write(Draft(admitted, data))
    assert stored.data == {**data, "metadata": {**data["metadata"], "resourceVersion": str(memory.version)}}  # type: ignore[dict-item]  # plain JSON
    memory.put(lease("a", holder="b"))
    actual = collected.find(("default", "a"))
    assert actual is not None
    assert actual.data["unknown"] == 1
    assert actual.data["spec"] == {"holderIdentity": "b"}
    (first, second) = collected.changes_since(memory.version - 2)
    assert first.new is stored
    assert (second.old, second.new) == (stored, actual)
    memory.remove(Lease, "a", "default")
    assert collected.find(("default", "a")) is None
    assert collected.changes_since(memory.version - 1)[0].old is actual


async def test_every_document_is_completed() -> None:
    def counted(document: ApiDocument) -> ApiDocument:
        seen = document.data.get("seen", 0)
        assert isinstance(seen, int)
        return ApiDocument(document.subject, msgspec.json.encode(document.data | {"seen": seen + 1}))

    memory = cluster()
    memory.add(lease("a"))
    collected = Collection(kind_of(Lease), memory, counted)
    memory.put(lease("a", holder="b"))
    memory.add(lease("b"))
    written = collected.write(Draft(memory.admit(lease("c")), {"unknown": 1}))
    assert [document.data["seen"] for document in collected.documents_at(memory.version)] == [2, 1, 1]
    assert (written.data["unknown"], written.data["seen"]) == (1, 1)


async def test_expired_or_foreign_version_is_an_error() -> None:
    memory = cluster()
    memory.add(lease("a"))
    collected = Collection(kind_of(Lease), memory)
    assert collected.changes_since(memory.version) == []
    for version in (memory.version - 1, memory.version + 1):
        with pytest.raises(ClusterError, match="too old resource version") as refused:
            collected.changes_since(version)
        assert refused.value.status == 410
    with pytest.raises(ClusterError, match="too old resource version"):
        names(collected, memory.version - 1)


async def test_oldest_history_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY", 3)
    memory = cluster()
    memory.add(lease("a"))
    collected = Collection(kind_of(Lease), memory)
    start = memory.version
    for turn in range(4):
        memory.put(lease("a", holder=str(turn)))
    assert [written.version for written in collected.changes_since(start + 1)] == [start + 2, start + 3, start + 4]
    assert names(collected, start + 1) == ["default/a"]
    with pytest.raises(ClusterError, match=f"too old resource version: {start} \\({start + 1}\\)"):
        collected.changes_since(start)


async def test_every_write_sets_the_event() -> None:
    memory = cluster()
    collected = Collection(kind_of(Lease), memory)
    event = asyncio.Event()
    with collected.wake_on_change(event):
        memory.add(lease("a"))
        assert event.is_set()
        event.clear()
    memory.add(lease("b"))
    assert not event.is_set()


_steps = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from("xyz"), st.sampled_from("+-")), max_size=30)


@given(_steps)
def test_every_version_can_be_listed(steps: list[tuple[str, str, str]]) -> None:
    async def main() -> None:
        memory = cluster()
        collected = Collection(kind_of(Lease), memory)
        moments = []
        for namespace, name, what in steps:
            if what == "+":
                memory.put(lease(name, namespace, holder=str(memory.version)))
            elif memory.find(Lease, name, namespace) is not None:
                memory.remove(Lease, name, namespace)
            moments.append(
                (
                    memory.version,
                    sorted(memory.objects(Lease), key=lambda each: each.metadata.namespace + each.metadata.name),
                )
            )
        for version, there in moments:
            assert [document.subject for document in collected.documents_at(version)] == there
            assert [each.subject for each in collected.documents_at(version, "b")] == [
                e for e in there if e.metadata.namespace == "b"
            ]
            assert [e.subject for e in collected.documents_at(version, after=("a", "y"))] == [
                e for e in there if (e.metadata.namespace, e.metadata.name) > ("a", "y")
            ]

    run_virtual(main)


@pytest.mark.parametrize("is_asked_first", [True, False])
async def test_in_process_writer_passes_whole_documents(is_asked_first: bool) -> None:
    memory = cluster()
    collected = Collection(kind_of(Lease), memory) if is_asked_first else None
    spec = {"holderIdentity": "a", "unread": [1]}
    stored = memory.add(lease("a"), document={"metadata": {"name": "a"}, "spec": spec})
    memory.add(lease("gone"), document={"spec": {"unread": [2]}})
    memory.remove(Lease, "gone")
    memory.add(lease("gone"))
    memory.replace(lease("a", holder="b"))
    collected = collected or Collection(kind_of(Lease), memory)
    shown, again = collected.find(("default", "a")), collected.find(("default", "gone"))
    assert shown is not None
    assert again is not None
    assert shown.data["spec"] == {"holderIdentity": "b", "unread": [1]}
    assert shown.data["metadata"]["uid"] == stored.metadata.uid  # type: ignore[index]  # plain JSON
    assert "unread" not in again.data["spec"]  # type: ignore[operator]  # plain JSON
    memory.replace(lease("a", holder="b"), document={"spec": {"holderIdentity": "b", "unread": [3]}})
    shown = collected.find(("default", "a"))
    assert shown is not None
    assert shown.data["spec"] == {"holderIdentity": "b", "unread": [3]}
