"""What a plugin asks of the API is done once at most, also when answers are lost, come late or come after the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import pairwise
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Namespace, ObjectMeta, Pod, PodCondition
from kframework.scheduler.cluster_api import MAX_DENIED_READS, ClusterApi
from kframework.scheduler.outbox import JITTER, RETRY_DELAYS, Outbox
from kframework.scheduler.scheduler import Scheduler
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from kframework.values.feature_gates import MINORS, FeatureGates

#: What becomes of a bind: it is done and the answer lost, it is lost itself, it is done so many seconds later; or the
#: status of a refusal.
Fate = str | float | int


#: A binding that is done, though the server calls it a conflict: its etcd was killed before it answered.
SILENT_ETCD = ClusterError(
    'Operation cannot be fulfilled on pods/binding "p": '
    "rpc error: code = Unavailable desc = error reading from server: EOF",
    status=409,
    reason="Conflict",
)


class Lossy(MemoryCluster):
    """A cluster that has a fate for each bind of a pod, while it has any left for it; calls are noted."""

    def __init__(self, objects: Iterable[ApiObject], fates: dict[str, list[Fate]]) -> None:
        self.loop = asyncio.get_running_loop()
        super().__init__(LoopClock(self.loop), objects)
        self.fates = {name: iter(each) for name, each in fates.items()}
        self.calls: list[tuple[float, str]] = []
        self.faults.append(self._note)

    def _note(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> None:
        self.calls.append((self.loop.time(), method))

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod, or do to it what is its fate."""
        fate = next(self.fates.get(name, iter(())), None)
        if isinstance(fate, int):
            self._note("bind", Pod, namespace, name)
            raise ClusterError("refused", status=fate)
        if isinstance(fate, float):
            self._note("bind", Pod, namespace, name)
            self.loop.call_later(fate, self._bind_late, namespace, name, uid, node_name)
        elif fate != "lost":
            await super().bind(namespace, name, uid, node_name)
        else:
            self._note("bind", Pod, namespace, name)
        if fate is not None:
            raise ClusterError("no answer", status=0)

    def _bind_late(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        try:
            self.assign(namespace, name, uid, node_name)
        except ClusterError as error:
            assert error.status in (404, 409)


class Desk:
    """The API as a plugin gets it, in front of such a cluster with the pod `p`."""

    def __init__(self, fates: list[Fate], minor: str, seed: int = 0) -> None:
        self.cluster = Lossy([make_node("a"), make_node("b"), make_pod("p")], {"p": fates})
        self.outbox = Outbox(self.cluster, self.cluster._clock, Random(seed))
        self.api = ClusterApi(self.cluster, self.outbox, FeatureGates(minor))
        self.pod = PendingPod(self.cluster.read(Pod, "p", "default"), TemplateInterner())

    @property
    def methods(self) -> list[str]:
        return [method for _, method in self.cluster.calls]

    @property
    def node_name(self) -> str:
        return self.cluster.read(Pod, "p", "default").spec.node_name


def at_a_desk(work: Callable[[Desk], Awaitable[None]], *fates: Fate, minor: str = "1.37", seed: int = 0) -> None:
    async def main() -> None:
        desk = Desk(list(fates), minor, seed)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.outbox.run)
            await work(desk)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.parametrize(
    ("fates", "calls"),
    [
        ((), ["bind"]),
        (("done",), ["bind", "get"]),
        (("lost",), ["bind", "get", "bind"]),
        (("lost", "done"), ["bind", "get"] * 2),
        ((0.001,), ["bind", "get", "bind", "get"]),  # the late one is first, and the second one refused
        ((60.0,), ["bind", "get", "bind"]),  # the late one is refused
        ((60.0, 0.02), ["bind", "get"] * 3),
        ((504,), ["bind", "get", "bind"]),
        ((409,), ["bind", "get", "bind"]),
        ((60.0, 500, 403), ["bind", "get"] * 3 + ["bind"]),  # what is refused leaves the late one open
        (("lost",) * len(RETRY_DELAYS), ["bind", "get"] * len(RETRY_DELAYS) + ["bind"]),
    ],
)
@pytest.mark.parametrize("minor", MINORS)
def test_bind_without_an_answer_ends_bound_to_the_chosen_node(
    fates: tuple[Fate, ...], calls: list[str], minor: str
) -> None:
    async def work(desk: Desk) -> None:
        await desk.api.bind(desk.pod, "a")
        assert desk.methods == calls
        await asyncio.sleep(100)
        assert desk.node_name == "a"

    at_a_desk(work, *fates, minor=minor)


ALL_TRIES = ["bind", "get"] * (len(RETRY_DELAYS) + 1)


@pytest.mark.parametrize("status", [409, 500, 503, 0])
def test_a_bind_is_tried_four_times_with_growing_pauses(status: int) -> None:
    """As kube-scheduler 1.37 does: 10 ms, then five times as long each, and up to a tenth more by the seed."""

    def pauses(seed: int) -> list[float]:
        times = list[float]()

        async def work(desk: Desk) -> None:
            with pytest.raises(ClusterError):
                await desk.api.bind(desk.pod, "a")
            times.extend(at for at, method in desk.cluster.calls if method == "bind")

        at_a_desk(work, *[status or "lost"] * 9, seed=seed)
        return [after - before for before, after in pairwise(times)]

    found = pauses(0)
    assert len(found) == 3
    for pause, delay in zip(found, (0.01, 0.05, 0.25), strict=True):
        assert delay < pause <= delay * (1 + JITTER)
    assert pauses(0) == found != pauses(1)


@pytest.mark.parametrize(
    ("fates", "calls"),
    [
        ((500,), ["bind", "get", "bind"]),
        ((503, 500, 503), ["bind", "get"] * 3 + ["bind"]),
        ((500, "done"), ["bind", "get"] * 2),
    ],
)
def test_a_bind_survives_transient_errors_since_1_37(fates: tuple[Fate, ...], calls: list[str]) -> None:
    async def work(desk: Desk) -> None:
        await desk.api.bind(desk.pod, "a")
        assert (desk.methods, desk.node_name) == (calls, "a")

    at_a_desk(work, *fates)


@pytest.mark.parametrize(
    ("fates", "status", "calls"),
    [
        ((409,) * 9, 409, ALL_TRIES),
        ((403,), 403, ["bind"]),
        ((501,), 501, ["bind", "get"]),
        ((500, 403), 403, ["bind", "get", "bind"]),
        ((500,) * 9, 500, ALL_TRIES),
        ((*["lost"] * len(RETRY_DELAYS), 409), 409, ALL_TRIES),
        (("lost",) * 9, 0, ALL_TRIES),
    ],
)
def test_bind_that_is_refused_fails(fates: tuple[Fate, ...], status: int, calls: list[str]) -> None:
    refused_bind(fates, status, calls, "1.37")


@pytest.mark.parametrize("fates", [(500,), (503,), (500, "lost")])
def test_bind_fails_at_its_first_transient_error_in_1_36(fates: tuple[Fate, ...]) -> None:
    assert isinstance(fates[0], int)
    refused_bind(fates, fates[0], ["bind", "get"], "1.36")


def refused_bind(fates: tuple[Fate, ...], status: int, calls: list[str], minor: str) -> None:
    async def work(desk: Desk) -> None:
        with pytest.raises(ClusterError) as refused:
            await desk.api.bind(desk.pod, "a")
        assert (refused.value.status, desk.methods, desk.node_name) == (status, calls, "")

    at_a_desk(work, *fates, minor=minor)


def bound_elsewhere(cluster: MemoryCluster, pod: PendingPod) -> None:
    cluster.assign("default", "p", pod.uid, "b")


def gone(cluster: MemoryCluster, pod: PendingPod) -> None:
    cluster.remove(Pod, "p", "default")


def another(cluster: MemoryCluster, pod: PendingPod) -> None:
    gone(cluster, pod)
    made = make_pod("p", node_name="a")
    cluster.add(replace(made, metadata=replace(made.metadata, uid="another")))


def leaving(cluster: MemoryCluster, pod: PendingPod) -> None:
    """As a finalizer has it, it goes only later."""
    cluster.merge(Pod, "p", {"metadata": {"finalizers": ["example.com/waits"]}}, "default")
    cluster.remove(Pod, "p", "default")


@pytest.mark.parametrize(("happens", "status"), [(bound_elsewhere, 409), (gone, 404), (another, 409), (leaving, 409)])
def test_binding_by_another_client_is_no_success(
    happens: Callable[[MemoryCluster, PendingPod], None], status: int
) -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.loop.call_later(0.005, happens, desk.cluster, desk.pod)
        with pytest.raises(ClusterError) as refused:
            await desk.api.bind(desk.pod, "a")
        assert (refused.value.status, desk.methods) == (status, ["bind", "get"] * 2)

    at_a_desk(work, "lost")


def failing(method: str, error: ClusterError, times: int) -> Callable[..., Fault | None]:
    left = iter([Fault(error=error)] * times)
    return lambda called, *_: next(left, None) if called == method else None


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_pod_is_read_back_until_there_is_an_answer(status: int) -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.faults.append(failing("get", ClusterError("no", status=status), 7))
        await desk.api.bind(desk.pod, "a")
        times = [at for at, method in desk.cluster.calls if method == "get"]
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses == pytest.approx([0.01, 0.05, 0.25, 1.25, 6.25, 10.0, 10.0])
        assert desk.methods.count("bind") == 1

    at_a_desk(work, "done")


def test_conflict_may_be_a_binding_that_is_done() -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.faults.append(lambda method, *_: Fault(error=SILENT_ETCD, done=True) if method == "bind" else None)
        await desk.api.bind(desk.pod, "a")
        assert (desk.node_name, desk.methods) == ("a", ["bind", "get"])

    at_a_desk(work)


def test_repeated_binding_decides_if_reading_is_forbidden() -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.faults.append(failing("get", ClusterError("no", status=403), 99))
        with pytest.raises(ClusterError, match="already assigned") as refused:
            await desk.api.bind(desk.pod, "a")
        tries = ["bind", *["get"] * (MAX_DENIED_READS + 1)] * (len(RETRY_DELAYS) + 1)
        assert (refused.value.status, desk.methods) == (409, tries)

    at_a_desk(work, "done")


@pytest.mark.parametrize("status", [401, 403])
def test_bound_pod_is_found_when_a_server_that_has_just_started_has_read_its_roles(status: int) -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.faults.append(failing("get", ClusterError("no", status=status), MAX_DENIED_READS))
        await desk.api.bind(desk.pod, "a")
        assert (desk.node_name, desk.methods) == ("a", ["bind", *["get"] * (MAX_DENIED_READS + 1)])

    at_a_desk(work, "done")


def test_bind_waits_for_the_status_in_flight() -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.faults.append(lambda method, *_: Fault(delay=1.0) if method == "patch_pod_status" else None)
        desk.outbox.patch_status(desk.pod, PodCondition(type="PodScheduled", status="False"), None)
        await asyncio.sleep(0.5)
        await desk.api.bind(desk.pod, "a")
        assert desk.cluster.calls == [(0.0, "patch_pod_status"), (1.0, "bind")]
        (condition,) = desk.cluster.read(Pod, "p", "default").status.conditions
        assert condition.status == "True"

    at_a_desk(work)


@pytest.mark.parametrize(
    "write",
    [
        lambda desk: desk.api.bind(desk.pod, "a"),
        lambda desk: desk.api.create(Namespace(metadata=ObjectMeta(name="c"))),
        lambda desk: desk.api.patch(Pod, "p", {"metadata": {"labels": {"a": "b"}}}, "default"),
        lambda desk: desk.api.patch_status(Pod, "p", {"phase": "Failed"}, "default"),
        lambda desk: desk.api.delete(Pod, "p", "default"),
    ],
    ids=["bind", "create", "patch", "patch_status", "delete"],
)
def test_nothing_is_written_once_the_scheduler_has_stopped(
    write: Callable[[Desk], Coroutine[object, object, object]],
) -> None:
    async def work(desk: Desk) -> None:
        desk.outbox.fence.close()
        with pytest.raises(ClusterError, match="writes are blocked"):
            await write(desk)
        assert (await desk.api.get(Pod, "p", "default")).metadata.uid == desk.pod.uid
        assert desk.methods == ["get"]

    at_a_desk(work)


@pytest.mark.parametrize("unread", [0, 9], ids=["between two binds", "while it is read back"])
def test_bind_without_an_answer_ends_with_the_scheduler(unread: int) -> None:
    async def work(desk: Desk) -> None:
        desk.cluster.faults.append(failing("get", ClusterError("no", status=0), unread))
        desk.cluster.loop.call_later(0.1, desk.outbox.fence.close)
        with pytest.raises(ClusterError, match="writes are blocked"):
            await desk.api.bind(desk.pod, "a")
        assert all(at < 0.1 for at, _ in desk.cluster.calls)

    at_a_desk(work, *["lost"] * 9)


NODES, PODS = "abc", ("p", "q", "r", "s")


@given(
    fates=st.dictionaries(
        st.sampled_from(PODS),
        st.lists(
            st.one_of(st.sampled_from(["lost", "done", 500, 409]), st.floats(0.0, 30.0)), max_size=len(RETRY_DELAYS)
        ),
    ),
    unread=st.integers(0, 6),
    deleted=st.one_of(st.none(), st.tuples(st.sampled_from(PODS), st.floats(0.0, 5.0))),
)
def test_however_answers_are_lost_no_pod_is_bound_twice_and_no_node_holds_too_many(
    fates: dict[str, list[Fate]], unread: int, deleted: tuple[str, float] | None
) -> None:
    """Each node has room for one pod; in the end the scheduler knows what the API knows."""

    async def main() -> None:
        cluster = Lossy([*(make_node(name, pods=1) for name in NODES), *map(make_pod, PODS)], fates)
        cluster.faults.append(failing("get", ClusterError("no answer", status=0), unread))
        homes: dict[str, set[str]] = {name: set() for name in PODS}

        def note(change: object) -> None:
            for pod in cluster.objects(Pod):
                homes[pod.metadata.name].add(pod.spec.node_name)

        cluster.subscribe([Pod], note)
        if deleted is not None:
            cluster.loop.call_later(deleted[1], _delete, cluster, deleted[0])
        scheduler = Scheduler(default_configuration(), cluster, cluster._clock, slice=0.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(3600)
            placed = [pod for pod in cluster.objects(Pod) if pod.spec.node_name]
            assert len(placed) == len(NODES)
            assert sorted(pod.spec.node_name for pod in placed) == list(NODES)
            assert all(len(nodes - {""}) <= 1 for nodes in homes.values()), "no pod moves"
            known = scheduler.engine.cluster
            assert {pod.name: pod.node_name for pod in known.pods.values()} == {
                pod.metadata.name: pod.spec.node_name for pod in placed
            }
            assert not known.assumed and scheduler.is_idle
            tasks.cancel_scope.cancel()

    run_virtual(main)


def _delete(cluster: MemoryCluster, name: str) -> None:
    cluster.remove(Pod, name, "default", grace=0)
