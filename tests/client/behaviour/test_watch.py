"""What a watch of every cluster reports, in which order, and through lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random

import pytest
from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.fake_api import collection
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Lease, Node, Pod, PodStatus
from kframework.state.inbox import Deleted, Message, Upserted
from tests.client.behaviour.ways import DEADLINE, Stage, lease, node, pod
from tests.support.declared_kinds import Team, team


async def test_watch_lists_and_then_follows(stage: Stage) -> None:
    stage.store.load([pod("a"), pod("b"), pod("c")])
    async with stage.watching(Pod) as watched:
        assert sorted(watched.words[:3]) == ["+a", "+b", "+c"]
        assert watched.words[3:] == ["synced"]
        await stage.client.create(pod("d"))
        await stage.client.patch(Pod, "b", {"metadata": {"labels": {"x": "y"}}}, "default")
        await stage.client.bind("default", "a", "", "n1")
        await stage.client.delete(Pod, "b", "default")
        words = await watched.until("-b")
    assert words[4:] == ["+d", "+b", "+a", "-b"]
    bound = watched.messages[-2]
    assert isinstance(bound, Upserted) and bound.obj == stage.store.read(Pod, "a", "default")


async def test_follow_reports_every_change_of_one_object(stage: Stage) -> None:
    told: list[str | None] = []
    grown = asyncio.Event()

    def tell(found: Lease | None) -> None:
        told.append(None if found is None else found.spec.holder_identity)
        grown.set()

    async def until(holder: str | None) -> None:
        async with asyncio.timeout(DEADLINE):
            while told[-1:] != [holder]:
                grown.clear()
                await grown.wait()

    stage.store.load([lease("other"), lease("l")])
    following = asyncio.ensure_future(stage.client.follow(Lease, "l", "kube-system", tell))
    await until(lease("l").spec.holder_identity)
    for holder in ("a", ""):
        found = stage.store.read(Lease, "l", "kube-system")
        stage.store.remove(Lease, "other", "kube-system") if holder else None
        stage.store.replace(replace(found, spec=replace(found.spec, holder_identity=holder)))
        await until(holder)
    stage.store.remove(Lease, "l", "kube-system")
    await until(None)
    stage.store.add(lease("l"))
    await until(lease("l").spec.holder_identity)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_every_kind_is_listed_before_synced_which_comes_once(stage: Stage) -> None:
    stage.store.load([pod("p"), node("n"), lease("l"), team("t")])
    async with stage.watching(Pod, Node, Lease, Team) as watched:
        assert sorted(watched.words[:4]) == ["+l", "+n", "+p", "+t"]
        stage.interrupt()
        for subject in (pod("p2"), node("n2"), lease("l2"), team("t2")):
            stage.store.add(subject)
            await watched.until(f"+{subject.metadata.name}")
    assert sorted(watched.words[4:]) == ["+l2", "+n2", "+p2", "+t2", "synced"]
    assert watched.words[4] == "synced"


async def test_unwatched_kinds_are_not_reported(stage: Stage) -> None:
    async with stage.watching(Node) as watched:
        await stage.client.create(pod())
        await stage.client.create(node("marker"))
        assert await watched.until("+marker") == ["synced", "+marker"]


async def test_reported_objects_are_the_stored_ones(stage: Stage) -> None:
    stage.store.load([pod("a"), node("n")])
    async with stage.watching(Pod, Node) as watched:
        stage.store.add(pod("b"))
        await watched.until("+b")
    told = {each.obj.metadata.name: each.obj for each in watched.messages if isinstance(each, Upserted)}
    assert told == {each.metadata.name: each for kind in (Pod, Node) for each in stage.store.objects(kind)}


async def test_ended_pods_are_reported_as_deleted(stage: Stage) -> None:
    stage.store.load([pod("ended"), pod("web", node_name="n1")])
    end(stage.store, "ended")
    async with stage.watching(Pod) as watched:
        end(stage.store, "web")
        stage.store.put(replace(stage.store.read(Pod, "web", "default"), status=PodStatus(phase="Failed")))
        await stage.client.delete(Pod, "web", "default")
        await stage.client.delete(Pod, "ended", "default")
        await stage.client.create(pod("marker"))
        assert await watched.until("+marker") == ["+web", "synced", "-web", "+marker"]


async def test_ended_pods_are_reported_until_their_deletion_on_request(stage: Stage) -> None:
    stage.store.load([pod("ended"), pod("web", node_name="n1"), node("n1")])
    end(stage.store, "ended")
    async with stage.watching(Pod, Node, ended_pods=True) as watched:
        assert sorted(watched.words[:3]) == ["+ended", "+n1", "+web"]
        end(stage.store, "web")
        await stage.client.delete(Pod, "web", "default")
        stage.interrupt()
        await stage.client.delete(Pod, "ended", "default")
        await stage.client.create(pod("marker"))
        assert (await watched.until("+marker"))[3:] == ["synced", "+web", "-web", "-ended", "+marker"]
    ended = watched.messages[4]
    assert isinstance(ended, Upserted) and isinstance(ended.obj, Pod)
    assert ended.obj.status.phase == "Succeeded"


async def test_pod_that_is_deleted_ends_first(stage: Stage) -> None:
    stage.store.add(pod(node_name="n1"))
    async with stage.watching(Pod) as watched:
        await stage.client.delete(Pod, "web", "default")
        stage.store.remove(Pod, "web", "default", grace=0)
        assert await watched.until("-web") == ["+web", "synced", "+web", "-web"]
    changed, gone = watched.messages[2:]
    assert isinstance(changed, Upserted) and changed.obj.metadata.deletion_timestamp is not None
    assert isinstance(gone, Deleted) and gone.obj.metadata.uid == changed.obj.metadata.uid


async def test_recreated_object_is_another_object(stage: Stage) -> None:
    first = stage.store.add(pod())
    async with stage.watching(Pod) as watched:
        await stage.client.delete(Pod, "web", "default")
        second = await stage.client.create(pod())
        await stage.client.create(pod("marker"))
        assert await watched.until("+marker") == ["+web", "synced", "-web", "+web", "+marker"]
    gone, changed = watched.messages[2:4]
    assert isinstance(gone, Deleted) and gone.obj.metadata.uid == first.metadata.uid
    assert changed == Upserted(second)


async def test_broken_watch_misses_nothing_and_repeats_nothing(stage: Stage) -> None:
    stage.store.load([pod("a"), pod("b")])
    async with stage.watching(Pod) as watched:
        for name in ("c", "d"):
            stage.interrupt()
            stage.store.add(pod(name))
            stage.store.remove(Pod, name, "default")
            stage.store.add(pod(f"{name}2"))
            await watched.until(f"+{name}2")
    assert watched.words[2:] == ["synced", "+c", "-c", "+c2", "+d", "-d", "+d2"]


async def test_expired_watch_reports_the_differences(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "HISTORY", 3)
    names = ("same", "changed", "ended", "deleted", "replaced")
    stage.store.load(pod(name, node_name="n1") for name in names)
    async with stage.watching(Pod) as watched:
        stage.interrupt()
        stage.store.add(pod("new"))
        label(stage.store, "changed")
        end(stage.store, "ended")
        stage.store.remove(Pod, "deleted", "default", grace=0)
        stage.store.remove(Pod, "replaced", "default", grace=0)
        stage.store.add(pod("replaced"))
        stage.store.add(pod("marker"))
        await watched.until("+marker")
        stage.store.add(pod("later"))
        told = (await watched.until("+later"))[6:-1]
    assert sorted(told) == ["+changed", "+marker", "+new", "+replaced", "-deleted", "-ended", "-replaced"]
    assert told.index("-replaced") < told.index("+replaced")
    assert known(watched.messages).keys() == {pod.metadata.uid for pod in there(stage.store)}


@pytest.mark.parametrize("ended_pods", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_watch_reports_any_history(
    stage: Stage, seed: int, ended_pods: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "HISTORY", 5)
    random = Random(seed)
    stage.store.load([pod("a"), pod("b", node_name="n1")])
    async with stage.watching(Pod, ended_pods=ended_pods) as watched:
        for chapter in range(12):
            if random.random() < 0.5:
                stage.interrupt()
            for _ in range(random.randint(1, 10)):
                happen(stage.store, random)
            stage.store.add(pod(f"marker-{chapter}"))
            await watched.until(f"+marker-{chapter}")
            stage.store.remove(Pod, f"marker-{chapter}", "default")  # told behind all of a list
            await watched.until(f"-marker-{chapter}")
            shown = stage.store.objects(Pod) if ended_pods else there(stage.store)
            assert known(watched.messages) == {each.metadata.uid: each for each in shown}


def happen(store: MemoryCluster, random: Random) -> None:
    """Let one thing happen to one of a few pods, if it can."""
    name = random.choice("abcd")
    if store.find(Pod, name, "default") is None:
        store.add(pod(name, node_name=random.choice(["", "n1"])))
        return
    match random.choice(["label", "end", "delete", "kill"]):
        case "label":
            label(store, name)
        case "end":
            end(store, name)
        case "delete":
            store.remove(Pod, name, "default")
        case "kill":
            store.remove(Pod, name, "default", grace=0)


def there(store: MemoryCluster) -> list[Pod]:
    """List the pods that a watch shows unless it is asked for more."""
    return [each for each in store.objects(Pod) if not has_ended(each)]


def known(messages: Iterable[Message]) -> dict[str, ApiObject]:
    """Return the objects that a reader of these messages knows; each message must change something."""
    found: dict[str, ApiObject] = {}
    for message in messages:
        match message:
            case Upserted(obj):
                before = found.get(obj.metadata.uid)
                assert before is None or int(before.metadata.resource_version) < int(obj.metadata.resource_version)
                found[obj.metadata.uid] = obj
            case Deleted(obj):
                del found[obj.metadata.uid]
    return found


def label(store: MemoryCluster, name: str) -> None:
    """Change a pod."""
    found = store.read(Pod, name, "default")
    labels = {"turn": str(store.version)}
    store.replace(replace(found, metadata=replace(found.metadata, labels=labels)))


def end(store: MemoryCluster, name: str) -> None:
    """Let a pod run to its end."""
    store.set_status(store.read(Pod, name, "default"), PodStatus(phase="Succeeded"))
