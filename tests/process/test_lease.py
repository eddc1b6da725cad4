"""One candidate leads at a time, whatever befalls its requests, and the next one takes over in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeVar, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.clock import VIRTUAL_EPOCH, LoopClock, VirtualTimeLoop, rfc3339, rfc3339_micro, run_virtual
from kframework.config.duration import Duration
from kframework.config.models import LeaderElectionSettings
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, CoreEvent, Lease, LeaseSpec, ObjectMeta
from kframework.process.lease import RELEASE_TIMEOUT, LeaderElection, new_identity

T = TypeVar("T", bound=ApiObject)
R = TypeVar("R")

LEASE, NAMESPACE = "kube-scheduler", "kube-system"
UNAVAILABLE = ClusterError("the server is currently unable to handle the request", status=503)
CONFLICT = ClusterError("the object has been modified", status=409, reason="Conflict")


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class Fate(NamedTuple):
    """What befalls a request: how long it is on its way, and its answer back; whether it fails before it arrives."""

    out: float = 0.0
    back: float = 0.0
    error: ClusterError | None = None


CUT = Fate(out=math.inf)
NEVER_ANSWERED = Fate(back=math.inf)


class Line:
    """A candidate's connection to the cluster; a request that was sent arrives, even if its caller has given up."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.fate: Callable[[str], Fate] = lambda method: Fate()
        self.may_watch = False
        #: Every request with the time when it was sent.
        self.sent: list[tuple[float, str]] = []
        self._under_way: set[asyncio.Task[object]] = set()

    async def follow(self, kind: type[T], name: str, namespace: str, tell: Callable[[T | None], None]) -> None:
        if not self.may_watch:
            raise ClusterError("leases may not be watched", status=403, reason="Forbidden")
        await self.cluster.follow(kind, name, namespace, tell)

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        return await self._carried("get", lambda: self.cluster.get(kind, name, namespace))

    async def create(self, obj: T) -> T:
        method = "event" if isinstance(obj, CoreEvent) else "create"
        return await self._carried(method, lambda: self.cluster.create(obj))

    async def update(self, obj: T) -> T:
        return await self._carried("update", lambda: self.cluster.update(obj))

    async def _carried(self, method: str, call: Callable[[], Awaitable[R]]) -> R:
        self.sent.append((asyncio.get_running_loop().time(), method))
        fate = self.fate(method)

        async def arrive() -> R:
            await _pass(fate.out)
            if fate.error is not None:
                raise fate.error
            return await call()

        task = asyncio.create_task(arrive())
        self._under_way.add(task)
        task.add_done_callback(self._end)
        await asyncio.wait([task])
        await _pass(fate.back)
        return task.result()

    def _end(self, task: asyncio.Task[object]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits any more for an answer that comes too late


async def _pass(seconds: float) -> None:
    if seconds == math.inf:
        await asyncio.get_running_loop().create_future()
    elif seconds:
        await asyncio.sleep(seconds)


class SkewedClock:
    """A clock that is wrong by `seconds`."""

    def __init__(self, skew: float) -> None:
        self.skew = skew

    def now(self) -> float:
        return LoopClock(asyncio.get_running_loop()).now() + self.skew


class Candidate:
    """A candidate over a line of its own, and when it began and stopped to lead."""

    def __init__(self, cluster: MemoryCluster, name: str, *, skew: float = 0.0, **fields: str) -> None:
        self.line = Line(cluster)
        self.turns: list[tuple[float, str]] = []
        self.hangs = False
        durations = {field: Duration.parse(text) for field, text in fields.items()}
        self.election = LeaderElection(
            cast("Cluster", self.line),
            LeaderElectionSettings().model_copy(update=durations),
            SkewedClock(skew),
            identity=name,
            component="default-scheduler",
            random=Random(name),
            on_started=lambda: self._turn("started"),
            on_stopped=lambda: self._turn("stopped"),
            may_lead=lambda: not self.hangs,
        )
        self.task: asyncio.Task[None] | None = None

    def _turn(self, what: str) -> None:
        self.turns.append((asyncio.get_running_loop().time(), what))

    def start(self) -> Candidate:
        self.task = asyncio.create_task(self.election.run())
        return self

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    async def ended(self) -> None:
        assert self.task is not None
        await self.task

    @property
    def leads(self) -> bool:
        return self.election.leading

    def requests(self, method: str) -> list[float]:
        return [time for time, each in self.line.sent if each == method]


@pytest.fixture
async def cluster() -> MemoryCluster:
    return MemoryCluster(SkewedClock(0))


def lease(cluster: MemoryCluster) -> Lease:
    return cluster.read(Lease, LEASE, NAMESPACE)


def messages(cluster: MemoryCluster) -> list[str]:
    return [event.message for event in cluster.objects(CoreEvent)]


def at(seconds: float) -> str:
    return rfc3339_micro(VIRTUAL_EPOCH + seconds)


def held_by(holder: str | None, *, seconds: int | None = 15, transitions: int | None = 4) -> Lease:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=seconds,
        acquire_time="1999-01-01T00:00:00.000000Z",
        renew_time="2999-01-01T00:00:00.000000Z",
        lease_transitions=transitions,
    )
    return Lease(metadata=ObjectMeta(name=LEASE, namespace=NAMESPACE, labels={"kept": "yes"}), spec=spec)


# -- getting the lease -------------------------------------------------------------------------------------------------


async def test_first_one_makes_the_lease(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    assert a.leads
    assert lease(cluster).spec == LeaseSpec(
        holder_identity="a", lease_duration_seconds=15, acquire_time=at(0), renew_time=at(0), lease_transitions=0
    )


async def test_lease_is_the_one_of_the_settings(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a", lease_duration="1m30s")
    a.election._settings = a.election._settings.model_copy(
        update={"resource_name": "batch", "resource_namespace": "default"}
    )
    a.start()
    await asyncio.sleep(1)
    assert cluster.read(Lease, "batch", "default").spec.lease_duration_seconds == 90


@pytest.mark.parametrize(("duration", "seconds"), [("15s", 15), ("10100ms", 11), ("2m", 120)])
async def test_duration_is_written_in_whole_seconds_and_never_shorter(
    cluster: MemoryCluster, duration: str, seconds: int
) -> None:
    Candidate(cluster, "a", lease_duration=duration).start()
    await asyncio.sleep(1)
    assert lease(cluster).spec.lease_duration_seconds == seconds


@pytest.mark.parametrize(
    ("found", "transitions"),
    [
        (held_by(""), 5),
        (held_by(None), 5),
        (held_by("gone", seconds=0), 5),
        (held_by("gone", seconds=None), 5),
        (held_by("", transitions=None), 1),
    ],
)
async def test_free_lease_is_taken_at_once(cluster: MemoryCluster, found: Lease, transitions: int) -> None:
    cluster.add(found)
    Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    taken = lease(cluster)
    assert taken.spec == LeaseSpec(
        holder_identity="a",
        lease_duration_seconds=15,
        acquire_time=at(0),
        renew_time=at(0),
        lease_transitions=transitions,
    )
    assert taken.metadata.labels == {"kept": "yes"}


@pytest.mark.parametrize("skew", [-1e6, 0.0, 1e6])
@pytest.mark.parametrize("seconds", [3, 15, 40])
async def test_dead_holders_lease_is_taken_when_its_own_time_is_over(
    cluster: MemoryCluster, seconds: int, skew: float
) -> None:
    cluster.add(held_by("dead", seconds=seconds))
    a = Candidate(cluster, "a", skew=skew).start()
    await asyncio.sleep(60)
    ((since, _),) = a.turns
    assert seconds <= since <= seconds + 2 * 2.2
    assert lease(cluster).spec.lease_transitions == 5


async def test_holder_is_alive_as_long_as_its_record_changes(cluster: MemoryCluster) -> None:
    cluster.add(held_by("other"))
    a = Candidate(cluster, "a").start()
    for number in range(20):
        await asyncio.sleep(14)
        found = lease(cluster)
        cluster.replace(replace(found, spec=replace(found.spec, renew_time=at(number))))
    assert not a.turns
    await asyncio.sleep(15 + 2 * 2.2 * 2)
    assert a.leads


async def test_change_outside_the_record_does_not_prolong_the_lease(cluster: MemoryCluster) -> None:
    cluster.add(held_by("dead"))
    a = Candidate(cluster, "a").start()
    for number in range(10):
        await asyncio.sleep(2)
        found = lease(cluster)
        metadata = replace(found.metadata, annotations={"touched": str(number)})
        cluster.replace(replace(found, metadata=metadata))
    assert a.leads


async def test_tries_are_spaced_by_a_jittered_retry_period(cluster: MemoryCluster) -> None:
    cluster.add(held_by("other", seconds=1000))
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(900)
    tries = a.requests("get")
    gaps = [after - before for before, after in pairwise(tries)]
    random = Random("a")
    assert gaps == pytest.approx([2 * (1 + 1.2 * random.random()) for _ in gaps])
    assert a.requests("update") == []


@pytest.mark.parametrize("method", ["get", "create"])
@pytest.mark.parametrize("fate", [Fate(error=UNAVAILABLE), Fate(out=7), CUT])
async def test_failed_try_is_followed_by_the_next(cluster: MemoryCluster, method: str, fate: Fate) -> None:
    a = Candidate(cluster, "a")
    fates = iter([fate])
    a.line.fate = lambda each: next(fates, Fate()) if each == method else Fate()
    a.start()
    await asyncio.sleep(15)
    assert a.leads
    assert lease(cluster).spec.lease_transitions == 0


async def test_missing_namespace_of_the_lease_is_logged_with_the_option(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    a = Candidate(cluster, "a")
    missing = Fate(error=ClusterError('namespaces "volcano-system" not found', status=404, reason="NotFound"))
    a.line.fate = lambda each: missing if each == "create" else Fate()
    a.start()
    await asyncio.sleep(1)
    assert '"volcano-system" not found; create it, or set --leader-elect-resource-namespace' in caplog.text
    assert not a.leads


async def test_candidate_that_loses_the_race_waits(cluster: MemoryCluster) -> None:
    a, b = Candidate(cluster, "a"), Candidate(cluster, "b")
    a.line.fate = b.line.fate = lambda method: Fate(out=0.1, back=0.1)
    a.start()
    b.start()
    await asyncio.sleep(60)
    assert a.leads is not b.leads


async def test_record_with_a_lost_answer_is_found_and_kept(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a")
    fates = iter([NEVER_ANSWERED])
    a.line.fate = lambda method: next(fates, Fate()) if method == "create" else Fate()
    a.start()
    await asyncio.sleep(11)
    assert a.leads
    assert (lease(cluster).spec.acquire_time, lease(cluster).spec.lease_transitions) == (at(0), 0)


async def test_record_with_a_lost_answer_is_released_at_the_end(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a")
    a.line.fate = lambda method: NEVER_ANSWERED if method == "create" else Fate()
    a.start()
    await asyncio.sleep(1)
    assert lease(cluster).spec.holder_identity == "a"
    await a.stop()
    assert lease(cluster).spec.holder_identity == ""
    assert a.turns == []
    assert messages(cluster) == []


async def test_candidate_that_never_contended_writes_nothing_at_its_end(cluster: MemoryCluster) -> None:
    cluster.add(held_by("other"))
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    before = list(a.line.sent)
    await a.stop()
    assert a.line.sent == before
    assert messages(cluster) == []


async def test_request_gets_a_second_at_least(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a", lease_duration="1400ms", renew_deadline="1300ms", retry_period="100ms")
    a.line.fate = lambda method: Fate(back=0.9)
    a.start()
    await asyncio.sleep(2)
    assert a.leads


async def test_answer_that_comes_after_its_time_wins_nothing(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a", lease_duration="600ms", renew_deadline="500ms", retry_period="100ms")
    a.line.fate = lambda method: Fate(back=0.9)
    a.start()
    await asyncio.sleep(30)
    assert a.turns == []


# -- keeping the lease -------------------------------------------------------------------------------------------------


async def test_leader_renews_by_one_update_every_retry_period(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(7)
    assert a.line.sent == [(0, "get"), (0, "create"), (0, "event"), (2, "update"), (4, "update"), (6, "update")]
    assert lease(cluster).spec == LeaseSpec(
        holder_identity="a", lease_duration_seconds=15, acquire_time=at(0), renew_time=at(6), lease_transitions=0
    )


@pytest.mark.parametrize("transitions", [None, 4])
async def test_renewals_keep_transitions_and_acquire_time(cluster: MemoryCluster, transitions: int | None) -> None:
    cluster.add(held_by("", transitions=transitions))
    Candidate(cluster, "a").start()
    await asyncio.sleep(9)
    spec = lease(cluster).spec
    assert (spec.acquire_time, spec.renew_time) == (at(0), at(8))
    assert spec.lease_transitions == (transitions or 0) + 1


async def test_lease_that_others_touched_is_read_again_and_renewed(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(3)
    found = lease(cluster)
    cluster.replace(replace(found, metadata=replace(found.metadata, annotations={"by": "kubectl"})))
    await asyncio.sleep(2)
    assert [method for time, method in a.line.sent if time == 4] == ["update", "get", "update"]
    assert lease(cluster).spec.renew_time == at(4)
    assert lease(cluster).metadata.annotations == {"by": "kubectl"}


async def test_deleted_lease_is_made_again(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(3)
    cluster.remove(Lease, LEASE, NAMESPACE)
    await asyncio.sleep(2)
    assert a.leads
    assert lease(cluster).spec.holder_identity == "a"


@pytest.mark.parametrize("fate", [Fate(error=UNAVAILABLE), Fate(error=CONFLICT), CUT, NEVER_ANSWERED, Fate(back=6)])
async def test_failures_shorter_than_the_deadline_cost_nothing(cluster: MemoryCluster, fate: Fate) -> None:
    a = Candidate(cluster, "a").start()
    for _ in range(5):
        await asyncio.sleep(10)
        fates = iter([fate])
        a.line.fate = lambda method, fates=fates: next(fates, Fate())  # type: ignore[misc]  # a default binds the loop's
    assert a.leads
    assert [what for _, what in a.turns] == ["started"]


@pytest.mark.parametrize("fate", [Fate(error=UNAVAILABLE), CUT, NEVER_ANSWERED, Fate(out=9)])
async def test_leadership_ends_with_the_deadline_after_the_last_renewal(cluster: MemoryCluster, fate: Fate) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(5)  # the last renewal is of second 4
    a.line.fate = lambda method: fate
    await a.ended()
    assert a.turns == [(0, "started"), (14, "stopped")]
    assert not a.leads


async def test_deadline_counts_from_the_request_not_from_its_answer(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: Fate(back=4.5)
    await asyncio.sleep(6)  # sent at 2, answered at 6.5
    assert a.leads
    a.line.fate = lambda method: CUT
    await a.ended()
    assert a.turns[-1] == (12, "stopped")


async def test_late_answer_does_not_revive_a_leader(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a", lease_duration="15s", renew_deadline="10s", retry_period="8s").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: Fate(back=3) if method == "update" else CUT  # sent at 8, answered at 11
    await a.ended()
    assert a.turns == [(0, "started"), (10, "stopped")]
    assert lease(cluster).spec.renew_time == at(8)


async def test_answer_read_too_late_does_not_revive_a_leader(cluster: MemoryCluster) -> None:
    """A process that halts for a while finds the answer and its deadline at the same time."""
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    clock = cast("SkewedClock", a.election._clock)

    def stand_still(method: str) -> Fate:
        clock.skew += 9
        a.line.fate = lambda method: Fate()
        return Fate()

    a.line.fate = stand_still
    await a.ended()
    assert a.turns == [(0, "started"), (2, "stopped")]


@pytest.mark.parametrize("holder", ["b", "", None])
async def test_lease_that_is_not_ours_any_more_is_lost_at_once(cluster: MemoryCluster, holder: str | None) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(3)
    found = lease(cluster)
    cluster.replace(replace(found, spec=held_by(holder).spec))
    await a.ended()
    assert a.turns == [(0, "started"), (4, "stopped")]
    assert lease(cluster).spec == held_by(holder).spec


async def test_hanging_leader_stops_and_releases_the_lease(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(3)
    a.hangs = True
    await a.ended()
    assert a.turns[-1] == (4, "stopped")
    assert lease(cluster).spec.holder_identity == ""


async def test_hanging_candidate_does_not_contend(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a")
    a.hangs = True
    a.start()
    await asyncio.sleep(20)
    assert a.line.sent == []
    a.hangs = False
    await asyncio.sleep(5)
    assert a.leads


# -- giving the lease up -----------------------------------------------------------------------------------------------


async def test_cancelled_leader_releases_the_lease(cluster: MemoryCluster) -> None:
    cluster.add(held_by(""))
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(5)
    b = Candidate(cluster, "b").start()
    await asyncio.sleep(5.5)
    await a.stop()
    assert lease(cluster).spec == LeaseSpec(
        holder_identity="", lease_duration_seconds=1, acquire_time=at(10.5), renew_time=at(10.5), lease_transitions=5
    )
    assert a.turns == [(0, "started"), (10.5, "stopped")]
    await asyncio.sleep(2 * 2.2)
    assert b.leads
    assert lease(cluster).spec.lease_transitions == 6


async def test_leadership_has_ended_when_the_lease_is_released(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    leading: list[tuple[str, bool]] = []

    def note(method: str) -> Fate:
        leading.append((a.turns[-1][1], a.leads))
        return Fate()

    a.line.fate = note
    await a.stop()
    assert leading == [("stopped", False)] * 3  # get, update, event


async def test_renewal_that_overtakes_the_release_does_not_prevent_it(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: Fate(out=0.75) if method == "update" else Fate(back=0.5)
    await asyncio.sleep(1.25)  # a renewal was sent at 2 and arrives at 2.75, between the release's get and its update
    await a.stop()
    assert lease(cluster).spec.holder_identity == ""


@pytest.mark.parametrize("fate", [Fate(error=UNAVAILABLE), Fate(error=CONFLICT), CUT])
async def test_release_that_fails_ends_in_time(cluster: MemoryCluster, fate: Fate) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: fate
    await a.stop()
    assert lease(cluster).spec.holder_identity == "a"
    assert asyncio.get_running_loop().time() <= 1 + RELEASE_TIMEOUT


async def test_release_with_slow_answers_ends_in_time(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: Fate(back=1.4)
    await a.stop()
    assert lease(cluster).spec.holder_identity == ""
    assert asyncio.get_running_loop().time() == 1 + RELEASE_TIMEOUT, "the event was not waited for"


async def test_no_release_is_tried_over_a_dead_network(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the end of the process would wait for it."""
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: CUT
    await asyncio.sleep(7)
    asked = len(a.line.sent)
    await a.stop()
    assert (len(a.line.sent), asyncio.get_running_loop().time()) == (asked, 8)
    assert lease(cluster).spec.holder_identity == "a"
    assert "not releasing lease kube-system/kube-scheduler" in caplog.text


async def test_network_that_came_back_carries_the_release(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    a.line.fate = lambda method: CUT
    await asyncio.sleep(5.5)
    a.line.fate = lambda method: Fate()
    await asyncio.sleep(2)
    assert a.leads
    await a.stop()
    assert lease(cluster).spec.holder_identity == ""


@pytest.mark.parametrize("others", [1, 2, 5])
async def test_lease_that_is_watched_is_taken_over_at_once_by_one(cluster: MemoryCluster, others: int) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    waiting = [Candidate(cluster, f"b{number}") for number in range(others)]
    for each in waiting:
        each.line.may_watch = True
        each.line.fate = lambda method: Fate(out=0.02, back=0.02)
        each.start()
    await asyncio.sleep(7.3)
    await a.stop()
    await asyncio.sleep(0.2)
    winners = [each for each in waiting if each.leads]
    assert len(winners) == 1
    assert lease(cluster).spec.lease_transitions == 1
    await asyncio.sleep(60)
    assert [each for each in waiting if each.leads] == winners, "and he stays it"


async def test_lease_that_is_deleted_is_taken_over_at_once(cluster: MemoryCluster) -> None:
    Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    b = Candidate(cluster, "b")
    b.line.may_watch = True
    b.start()
    await asyncio.sleep(7.1)
    cluster.remove(Lease, LEASE, NAMESPACE)
    await asyncio.sleep(0.1)
    assert b.leads


async def test_watching_standby_sends_no_more_requests(cluster: MemoryCluster) -> None:
    """A lease that is renewed is no reason to look at it."""
    Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    counts = []
    for may_watch in (False, True):
        b = Candidate(cluster, "b")
        b.line.may_watch = may_watch
        b.start()
        await asyncio.sleep(120)
        counts.append(len(b.line.sent))
        await b.stop()
    assert counts[0] == counts[1]


async def test_lease_lost_for_lack_of_renewal_is_given_up_if_that_still_works(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    loop = asyncio.get_running_loop()
    a.line.fate = lambda method: Fate(error=UNAVAILABLE) if loop.time() < 10 else Fate()
    await a.ended()
    assert lease(cluster).spec.holder_identity == ""


async def test_crashing_leader_releases_the_lease(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a")

    def crash() -> None:
        raise RuntimeError("no room for a leader")

    a.election._on_started = crash
    a.start()
    with pytest.raises(RuntimeError, match="no room"):
        await a.ended()
    assert a.turns == [(0, "stopped")]
    assert lease(cluster).spec.holder_identity == ""


async def test_nothing_is_left_running(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a")
    before = asyncio.all_tasks()
    fates = iter([CUT])
    a.line.fate = lambda method: next(fates, Fate()) if method == "event" else Fate()
    a.start()
    await asyncio.sleep(1)
    await a.stop()
    assert asyncio.all_tasks() - a.line._under_way == before


# -- what others see ---------------------------------------------------------------------------------------------------


async def test_events_name_the_leader(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1.5)
    uid = lease(cluster).metadata.uid
    await a.stop()
    first, second = cluster.objects(CoreEvent)
    assert (first.message, second.message) == ("a became leader", "a stopped leading")
    assert first.metadata.namespace == NAMESPACE
    assert first.metadata.name.startswith("kube-scheduler.")
    subject = first.involved_object
    assert (subject.api_version, subject.kind) == ("coordination.k8s.io/v1", "Lease")
    assert (subject.namespace, subject.name, subject.uid) == (NAMESPACE, LEASE, uid)
    assert (first.type, first.reason, first.count) == ("Normal", "LeaderElection", 1)
    assert (first.source.component, first.reporting_component) == ("default-scheduler", "default-scheduler")
    assert first.first_timestamp == first.last_timestamp == rfc3339(VIRTUAL_EPOCH)


@pytest.mark.parametrize("fate", [Fate(error=UNAVAILABLE), CUT, Fate(back=20)])
async def test_no_event_is_worth_a_lease(cluster: MemoryCluster, fate: Fate) -> None:
    a = Candidate(cluster, "a")
    a.line.fate = lambda method: fate if method == "event" else Fate()
    a.start()
    await asyncio.sleep(20.5)
    assert a.requests("update") == [2.0 * number for number in range(1, 11)]
    await a.stop()
    assert lease(cluster).spec.holder_identity == ""


@pytest.mark.parametrize("method", ["get", "create", "update", "event"])
async def test_missing_right_is_reported_elsewhere(
    cluster: MemoryCluster, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    message = f'"x" is forbidden: User "me" cannot {method} resource "leases" in API group "coordination.k8s.io"'
    a = Candidate(cluster, "a")
    await a.start().stop()
    a.line.fate = lambda asked: Fate(error=ClusterError(message, status=403)) if asked == method else Fate()
    a.start()
    await asyncio.sleep(30.0)
    await a.stop()
    lost = ["lost lease kube-system/kube-scheduler: it was not renewed within 10s"] if method == "update" else []
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == lost


async def test_leadership_ends_on_time_without_a_check(cluster: MemoryCluster) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    clock = cast("SkewedClock", a.election._clock)
    clock.skew = 8.9
    assert a.leads
    clock.skew = 9.0
    assert not a.leads
    clock.skew = 9.0 + 5 + 20
    assert a.election.problem() is None
    clock.skew += 0.1
    assert a.election.problem() == "failed election to renew leadership on lease kube-scheduler"
    clock.skew = 0
    await a.stop()
    assert a.election.problem() is None


def test_identities_of_processes_differ() -> None:
    first, second = new_identity(), new_identity()
    assert first != second
    assert first.rpartition("_")[0] == second.rpartition("_")[0]


# -- all together ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
async def test_killed_leader_is_followed_within_the_lease_time(cluster: MemoryCluster, skew: float) -> None:
    a = Candidate(cluster, "a").start()
    await asyncio.sleep(1)
    b = Candidate(cluster, "b", skew=skew).start()
    await asyncio.sleep(10)
    a.line.fate = lambda method: CUT  # from 11 on; the last renewal was at 10
    await asyncio.sleep(40)
    since = b.turns[0][0]
    assert 25 <= since <= 25 + 4.4 * 2
    assert a.turns[-1] == (20, "stopped")
    assert messages(cluster) == ["a became leader", "b became leader"]


async def _storm(seed: int, fields: dict[str, str]) -> None:
    """Let three candidates and their successors contend under faults; none may begin while another leads."""
    random = Random(seed)
    loop = asyncio.get_running_loop()
    cluster = MemoryCluster(SkewedClock(0))
    living: list[Candidate] = []
    everyone: list[Candidate] = []
    calm = False

    def fate(method: str) -> Fate:
        if calm or random.random() < 0.6:
            return Fate(random.uniform(0, 0.2), random.uniform(0, 0.2))
        return random.choice(
            [
                CUT,
                NEVER_ANSWERED,
                Fate(error=UNAVAILABLE),
                Fate(error=CONFLICT),
                Fate(out=random.uniform(0, 30)),
                Fate(back=random.uniform(0, 12)),
            ]
        )

    def born() -> None:
        candidate = Candidate(cluster, f"c{len(everyone)}", skew=random.uniform(-1e5, 1e5), **fields)
        candidate.line.fate = fate
        started = candidate.election._on_started

        def check() -> None:
            others = [each for each in everyone if each is not candidate]
            assert not any(each.leads for each in others)
            assert all([what for _, what in each.turns].count("started") == len(each.turns) / 2 for each in others)
            started()

        candidate.election._on_started = check
        living.append(candidate.start())
        everyone.append(candidate)

    def successors() -> None:
        for each in list(living):
            if each.task is not None and each.task.done():
                each.task.result()
                living.remove(each)
        while len(living) < 3:
            born()

    for _ in range(60):
        successors()
        await asyncio.sleep(random.uniform(0, 8))
        match random.randrange(6):
            case 0:  # SIGTERM
                await living.pop(random.randrange(3)).stop()
            case 1:  # its network is gone for good
                living[random.randrange(3)].line.fate = lambda method: CUT
    calm = True
    for each in living:
        each.line.fate = fate
    # What is still on its way may prolong one lease once; then it runs out, or is held.
    end = loop.time() + 30 + 3 * 30
    while loop.time() < end:
        successors()
        await asyncio.sleep(1)
    assert [each.leads for each in living].count(True) == 1
    for each in living:
        await each.stop()
    assume(sum(len(each.turns) > 0 for each in everyone) > 1)  # one leader from the first to the last says little


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"lease_duration": "11s", "renew_deadline": "10s", "retry_period": "2s"},
        {"lease_duration": "3500ms", "renew_deadline": "3400ms", "retry_period": "500ms"},
    ],
    ids=["default", "tight", "short"],
)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_two_never_lead_at_a_time(fields: dict[str, str], seed: int) -> None:
    run_virtual(lambda: _storm(seed, fields))
