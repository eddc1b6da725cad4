"""A reflector keeps up with a kind, through all failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.client.reflector import ReconnectBackoff, Reflector
from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.clock import LoopClock, VirtualTimeLoop, run_virtual
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Node, ObjectMeta, Pod, StorageClass, kind_of
from kframework.objects.meta import ApiObject
from kframework.state.inbox import Deleted, Message, Upserted
from kframework.testing import make_node
from tests.client.scripted import NO_ANSWER, Answer, Scripted, bookmark, failed, happened, lines, listed, refused, some


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class Told:
    """The messages of a reflector, in short: `+a@3` for Upserted at version 3, `-a` for Deleted, `listed`."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.words: list[str] = []

    def offer(self, message: Message) -> None:
        assert isinstance(message, Upserted | Deleted)
        self.messages.append(message)
        metadata = message.obj.metadata
        version = f"@{metadata.resource_version}" if isinstance(message, Upserted) else ""
        self.words.append(("+" if version else "-") + metadata.name + version)

    def listed(self) -> None:
        self.words.append("listed")

    def take(self) -> list[str]:
        """Return the messages since the last call."""
        words, self.words = self.words, []
        return words


def reflector(
    transport: Transport, told: Told, struct: type[ApiObject] = Pod, page: int = 500, *, ended_pods: bool = False
) -> Reflector[ApiObject]:
    clock = LoopClock(asyncio.get_running_loop())
    kind = kind_of(struct)
    return Reflector(transport, kind, told.offer, told.listed, clock, Random(0), page, ended_pods=ended_pods)


def queries(transport: Scripted) -> list[dict[str, str]]:
    return [dict(request.query) for request in transport.requests]


# --- the way things go ------------------------------------------------------------------------------------------------


async def test_list_and_watch_report_every_change() -> None:
    transport = Scripted(
        listed(5, some("a", 3), some("b", 4)),
        [
            happened("ADDED", some("c", 6)),
            happened("MODIFIED", some("a", 7)),
            bookmark(8),
            happened("DELETED", some("b", 9)),
            2.0,
        ],
    )
    told = Told()
    assert await reflector(transport, told).run_round() == 0
    assert told.words == ["+a@3", "+b@4", "listed", "+c@6", "+a@7", "-b"]
    assert [request.path for request in transport.requests] == ["/api/v1/pods"] * 2


async def test_list_and_watch_send_these_queries() -> None:
    transport = Scripted(listed(5), [2.0])
    await reflector(transport, Told(), page=50).run_round()
    alive = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    listing, watching = queries(transport)
    assert listing == {**alive, "limit": "50"}
    seconds = int(watching.pop("timeoutSeconds"))
    assert 290 <= seconds <= 590
    assert watching == {**alive, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5"}
    assert transport.requests[1].timeout == 90  # longer than from one bookmark to the next


@pytest.mark.parametrize(("kind", "ended_pods"), [(Node, False), (Node, True), (Pod, True)])
async def test_only_pods_are_selected_by_phase(kind: type[ApiObject], ended_pods: bool) -> None:
    transport = Scripted(listed(5), [2.0])
    await reflector(transport, Told(), kind, ended_pods=ended_pods).run_round()
    assert not any("fieldSelector" in query for query in queries(transport))


async def test_watch_resumes_at_the_last_version() -> None:
    transport = Scripted(listed(5), [bookmark(6), 2.0], [happened("ADDED", some("a", 9)), 2.0], [2.0])
    told = Told()
    follower = reflector(transport, told)
    assert [await follower.run_round() for _ in range(3)] == [0, 0, 0]
    assert [query.get("resourceVersion") for query in queries(transport)] == [None, "5", "6", "9"]
    assert told.words == ["listed", "+a@9"]


async def test_list_is_read_in_pages() -> None:
    transport = Scripted(
        listed(5, some("a", 3), following="t1"), listed(5, some("b", 3), following="t2"), listed(5, some("c", 3)), [2.0]
    )
    told = Told()
    await reflector(transport, told, page=1).run_round()
    assert told.words == ["+a@3", "+b@3", "+c@3", "listed"]
    assert [query.get("continue") for query in queries(transport)] == [None, "t1", "t2", None]


async def test_expired_page_is_followed_by_one_list_of_all() -> None:
    transport = Scripted(
        listed(5, some("a", 3), some("gone", 3), following="t1"),
        refused(410, "Expired"),
        listed(9, some("a", 3), some("b", 8)),
        [2.0],
    )
    told = Told()
    await reflector(transport, told, page=2).run_round()
    assert told.words == ["+a@3", "+gone@3", "+b@8", "-gone", "listed"]
    assert [query.get("limit") for query in queries(transport)] == ["2", "2", None, None]
    assert queries(transport)[3]["resourceVersion"] == "9"


# --- what is told twice, late, or never -------------------------------------------------------------------------------


async def test_duplicate_and_stale_events_are_skipped() -> None:
    transport = Scripted(
        listed(5, some("a", 5)),
        [
            happened("ADDED", some("a", 5)),
            happened("MODIFIED", some("a", 7)),
            happened("MODIFIED", some("a", 7)),
            happened("MODIFIED", some("a", 6)),
            happened("DELETED", some("a", 8)),
            happened("DELETED", some("a", 8)),
            happened("MODIFIED", some("a", 7)),
            happened("DELETED", some("never-seen", 9)),
            2.0,
        ],
    )
    told = Told()
    await reflector(transport, told).run_round()
    assert told.words == ["+a@5", "listed", "+a@7", "-a"]


async def test_versions_are_numbers_of_any_length() -> None:
    transport = Scripted(listed(9), [happened("ADDED", some("a", 10)), happened("MODIFIED", some("a", 9)), 2.0])
    told = Told()
    await reflector(transport, told).run_round()
    assert told.words == ["listed", "+a@10"]


async def test_versions_that_are_no_numbers_count_as_newer() -> None:
    documents = [some("a", 0), some("a", 0)]
    for document, version in zip(documents, ("x2", "x1"), strict=True):
        document["metadata"]["resourceVersion"] = version
    transport = Scripted(listed(5), [happened("MODIFIED", each) for each in documents] + [2.0])
    told = Told()
    await reflector(transport, told).run_round()
    assert told.words == ["listed", "+a@x2", "+a@x1"]


async def test_object_recreated_during_a_watch_is_a_deletion_and_an_addition() -> None:
    transport = Scripted(listed(5, some("a", 5)), [happened("ADDED", some("a", 9, uid="other")), 2.0])
    told = Told()
    await reflector(transport, told).run_round()
    assert told.words == ["+a@5", "listed", "-a", "+a@9"]
    (gone,) = (message for message in told.messages if isinstance(message, Deleted))
    assert gone.obj.metadata.uid == "a-uid"


async def test_deletion_of_another_uid_reports_the_known_object() -> None:
    transport = Scripted(listed(5, some("a", 5)), [happened("DELETED", some("a", 9, uid="other")), 2.0])
    told = Told()
    await reflector(transport, told).run_round()
    (gone,) = (message for message in told.messages if isinstance(message, Deleted))
    assert gone.obj.metadata.uid == "a-uid"


# --- lost watches -----------------------------------------------------------------------------------------------------

EXPIRED: list[Answer] = [
    refused(410, "Expired"),
    [failed(410, "Expired")],
    refused(504, "Timeout"),
    refused(400, "BadRequest"),
]


@pytest.mark.parametrize("expired", EXPIRED, ids=["410", "ERROR event", "504", "400"])
async def test_expired_version_is_listed_again_and_differences_reported(expired: Answer) -> None:
    transport = Scripted(
        listed(5, some("same", 1), some("changed", 2), some("gone", 3), some("again", 4)),
        expired,
        listed(20, some("same", 1), some("changed", 12), some("again", 14, uid="other"), some("new", 15)),
        [2.0],
    )
    told = Told()
    follower = reflector(transport, told)
    assert 0.8 <= await follower.run_round() <= 1.6
    assert told.take() == ["+same@1", "+changed@2", "+gone@3", "+again@4", "listed"]
    assert await follower.run_round() == 0
    assert told.take() == ["+changed@12", "-again", "+again@14", "+new@15", "-gone"]


BROKEN: list[Answer] = [
    NO_ANSWER,
    refused(500),
    refused(503),
    refused(429),
    refused(401),
    [NO_ANSWER],
    [failed(500, "InternalError")],
]


@pytest.mark.parametrize("broken", BROKEN)
async def test_broken_watch_resumes_without_a_list(broken: Answer) -> None:
    transport = Scripted(listed(5), broken, [2.0])
    follower = reflector(transport, Told())
    assert 0.8 <= await follower.run_round() <= 1.6
    assert await follower.run_round() == 0
    assert [query.get("resourceVersion") for query in queries(transport)] == [None, "5", "5"]


async def test_undecodable_line_causes_a_new_list() -> None:
    transport = Scripted(listed(5), [b'{"type": "ADDED", "obj'], listed(6, some("a", 6)), [2.0])
    told = Told()
    follower = reflector(transport, told)
    assert await follower.run_round() > 0
    assert await follower.run_round() == 0
    assert told.words == ["listed", "+a@6"]


async def test_watch_that_ends_at_once_does_not_make_a_busy_loop() -> None:
    transport = Scripted(listed(5), [], [], [])
    follower = reflector(transport, Told())
    pauses = [await follower.run_round() for _ in range(3)]
    assert all(low <= pause <= 2 * low for low, pause in zip((0.8, 1.6, 3.2), pauses, strict=True))


async def test_event_resets_the_backoff() -> None:
    transport = Scripted(NO_ANSWER, NO_ANSWER, NO_ANSWER, listed(5), [bookmark(6), NO_ANSWER], NO_ANSWER)
    follower = reflector(transport, Told())
    pauses = [await follower.run_round() for _ in range(5)]
    lows = (0.8, 1.6, 3.2, 0.8, 1.6)
    assert all(low <= pause <= 2 * low for low, pause in zip(lows, pauses, strict=True))


async def test_long_silence_resets_the_backoff() -> None:
    transport = Scripted(NO_ANSWER, NO_ANSWER, listed(5), [90.0, NO_ANSWER])
    follower = reflector(transport, Told())
    assert [await follower.run_round() for _ in range(3)][2] <= 1.6


async def test_list_alone_does_not_reset_the_backoff() -> None:
    transport = Scripted(listed(5), refused(410), listed(6), refused(410), listed(7), refused(410))
    follower = reflector(transport, Told())
    pauses = [await follower.run_round() for _ in range(3)]
    assert all(low <= pause <= 2 * low for low, pause in zip((0.8, 1.6, 3.2), pauses, strict=True))


def test_pauses_double_up_to_half_a_minute() -> None:
    backoff = ReconnectBackoff(Random(1))
    pauses = [backoff.pause() for _ in range(9)]
    lows = (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30)
    assert all(low <= pause < 2 * low for low, pause in zip(lows, pauses, strict=True))
    assert len({pause / low for low, pause in zip(lows, pauses, strict=True)}) == 9
    backoff.reset()
    assert backoff.pause() < 1.6


async def test_reflector_runs_forever() -> None:
    transport = Scripted(NO_ANSWER, listed(5), [bookmark(6), 2.0], NO_ANSWER, [happened("ADDED", some("a", 9))])
    told = Told()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await reflector(transport, told).run()
    assert told.words == ["listed", "+a@9"]


# --- kinds that are not there or not allowed --------------------------------------------------------------------------


async def test_kind_that_the_server_lacks_counts_as_empty(caplog: pytest.LogCaptureFixture) -> None:
    transport = Scripted(*[Response(404, b"404 page not found\n")] * 3, listed(5, some("fast", 5)), [2.0])
    told = Told()
    follower = reflector(transport, told, StorageClass)
    rests = [await follower.run_round() for _ in range(4)]
    assert all(rests[:3])
    assert told.words == ["listed", "+fast@5"]
    (record,) = caplog.records
    assert record.getMessage() == (
        "watching storageclasses: GET /apis/storage.k8s.io/v1/storageclasses: HTTP status 404: 404 page not found"
        "; this server does not serve storage.k8s.io/v1: treated as empty until it does"
    )


async def test_404_for_a_core_kind_completes_no_list() -> None:
    told = Told()
    await reflector(Scripted(refused(404)), told, Node).run_round()
    assert told.words == []


async def test_404_keeps_known_objects() -> None:
    transport = Scripted(listed(5, some("fast", 5)), refused(410), refused(404))
    told = Told()
    follower = reflector(transport, told, StorageClass)
    assert await follower.run_round() and await follower.run_round()
    assert told.words == ["+fast@5", "listed"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('nodes is forbidden: User "me" cannot list resource "nodes" in API group "" at the cluster scope', []),
        ("the proxy is against it", ["watching storageclasses: the proxy is against it"]),
    ],
)
async def test_forbidden_kind_is_retried_and_not_logged_here(
    message: str, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    transport = Scripted(*[refused(403, "Forbidden", message)] * 3, listed(5), [2.0])
    told = Told()
    follower = reflector(transport, told, StorageClass)
    rests = [await follower.run_round() for _ in range(3)]
    assert all(rests)
    assert told.words == []
    assert await follower.run_round() == 0
    assert told.words == ["listed"]
    assert caplog.messages == said


async def test_failed_watch_is_a_warning_and_a_missing_answer_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """A server that does not answer is reported once for all kinds."""
    broken = ClusterError("the server is broken", status=500)
    transport = Scripted(
        listed(5), [bookmark(6), NO_ANSWER], [bookmark(7), NO_ANSWER], NO_ANSWER, broken, broken, [bookmark(8), 2.0]
    )
    follower = reflector(transport, Told())
    told = []
    for _ in range(6):
        await follower.run_round()
        told.append(caplog.messages[:])
        caplog.clear()
    assert told == [[], [], [], ["watching pods: the server is broken"], [], []]


# --- objects that are not understood ----------------------------------------------------------------------------------

ODD: dict[str, Any] = {"spec": {"containers": "none"}}


async def test_undecodable_object_is_skipped_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    transport = Scripted(
        listed(5, some("a", 3), some("odd", 4, **ODD)),
        [
            happened("MODIFIED", some("odd", 6, **ODD)),
            happened("MODIFIED", some("a", 7)),
            happened("MODIFIED", some("a", 8, **ODD)),
            happened("DELETED", some("odd", 9, **ODD)),
            happened("DELETED", some("a", 10, **ODD)),
            2.0,
        ],
    )
    told = Told()
    await reflector(transport, told).run_round()
    assert told.words == ["+a@3", "listed", "+a@7", "-a"]
    problem = "cannot decode: spec.containers: expected a list, got a string"
    assert caplog.messages == [f"skipping Pod default/odd: {problem}", f"skipping Pod default/a: {problem}"]


async def test_object_is_reported_once_it_can_be_decoded() -> None:
    transport = Scripted(listed(5, some("odd", 4, **ODD)), [happened("MODIFIED", some("odd", 6)), 2.0])
    told = Told()
    await reflector(transport, told).run_round()
    assert told.words == ["listed", "+odd@6"]


async def test_known_object_that_becomes_undecodable_is_not_deleted() -> None:
    transport = Scripted(listed(5, some("a", 3)), refused(410), listed(9, some("a", 8, **ODD)), [2.0])
    told = Told()
    follower = reflector(transport, told)
    await follower.run_round()
    await follower.run_round()
    assert told.words == ["+a@3", "listed"]


# --- what Gone carries ------------------------------------------------------------------------------------------------


async def test_deletion_carries_the_last_state_of_the_watch() -> None:
    transport = Scripted(listed(5, some("a", 3)), [happened("DELETED", some("a", 9, spec={"nodeName": "n1"})), 2.0])
    told = Told()
    await reflector(transport, told).run_round()
    last = told.messages[-1]
    assert isinstance(last, Deleted) and isinstance(last.obj, Pod)
    assert last.obj.spec.node_name == "n1"


async def test_pod_missing_from_a_list_is_deleted_by_name() -> None:
    transport = Scripted(listed(5, some("a", 3, spec={"nodeName": "n1"})), refused(410), listed(9), [2.0])
    told = Told()
    follower = reflector(transport, told)
    await follower.run_round()
    await follower.run_round()
    assert told.messages[-1] == Deleted(Pod(metadata=ObjectMeta(name="a", namespace="default", uid="a-uid")))


async def test_other_object_missing_from_a_list_is_deleted_with_its_last_state() -> None:
    transport = Scripted(
        listed(5, some("n1", 3, namespace="")),
        [happened("MODIFIED", some("n1", 6, namespace="", spec={"unschedulable": True})), failed(410, "Expired")],
        listed(9),
        [2.0],
    )
    told = Told()
    follower = reflector(transport, told, Node)
    await follower.run_round()
    await follower.run_round()
    assert told.words == ["+n1@3", "listed", "+n1@6", "-n1"]
    last = told.messages[-1]
    assert isinstance(last, Deleted) and isinstance(last.obj, Node)
    assert last.obj.spec.unschedulable


# --- any history, any fault -------------------------------------------------------------------------------------------


class Server:
    """A server with one kind, whose store changes at random while it answers, when it does."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, bytes]] = []
        self.forgotten = 0
        self.calm = False

    def write(self) -> None:
        """Create, change, delete or replace an object."""
        self.version += 1
        name = self.random.choice("abcdef")
        old = self.objects.get(name)
        if old is not None and self.random.random() < 0.4:
            del self.objects[name]
            new = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
            self.history.append((self.version, happened("DELETED", new)))
            return
        uid = f"{name}{self.version}" if old is None else old["metadata"]["uid"]
        self.objects[name] = some(name, self.version, uid=uid)
        self.history.append((self.version, happened("MODIFIED" if old else "ADDED", self.objects[name])))

    def live(self) -> None:
        for _ in range(0 if self.calm else self.random.randrange(4)):
            self.write()
        if not self.calm and self.random.random() < 0.1:
            self.forgotten = self.version

    def trip(self) -> None:
        if not self.calm and self.random.random() < 0.2:
            raise NO_ANSWER

    async def send(self, request: Request) -> Response:
        self.live()
        self.trip()
        query = dict(request.query)
        if "continue" not in query:
            version, names = self.version, sorted(self.objects)
            self.snapshot = {name: self.objects[name] for name in names}
        else:
            text, _, rest = query["continue"].partition(":")
            version, names = int(text), list(rest)
            if version < self.forgotten:
                return refused(410, "Expired")
        limit = int(query.get("limit", "100"))
        now, later = names[:limit], names[limit:]
        self.live()
        return listed(
            version, *(self.snapshot[name] for name in now), following=f"{version}:{''.join(later)}" if later else ""
        )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.live()
        self.trip()
        since = int(dict(request.query)["resourceVersion"])
        if since < self.forgotten:
            yield Stream(410, lines([refused(410, "Expired").body]))
            return
        yield Stream(200, self._changes(since))

    async def _changes(self, since: int) -> AsyncIterator[bytes]:
        for _ in range(20):
            for version, line in [entry for entry in self.history if entry[0] > since]:
                since = version
                for _ in range(2 if self.random.random() < 0.2 else 1):
                    yield line
            if since < self.forgotten and self.random.random() < 0.3:
                yield failed(410, "Expired")
                return
            if self.random.random() < 0.3:
                yield bookmark(self.version) if since == self.version else bookmark(since)
            self.trip()
            await asyncio.sleep(1)
            self.live()

    async def close(self) -> None:
        pass


@given(st.integers(0, 2**32))
def test_reported_objects_are_the_stored_ones_after_any_history(seed: int) -> None:
    server = Server(Random(seed))
    believed: dict[str, str] = {}
    versions: dict[str, int] = {}

    def offer(message: Message) -> None:
        assert isinstance(message, Upserted | Deleted)
        metadata = message.obj.metadata
        if isinstance(message, Deleted):
            assert believed.pop(metadata.name) == metadata.uid, "gone was another one than the last that was told"
        else:
            version = int(metadata.resource_version)
            assert believed.setdefault(metadata.name, metadata.uid) == metadata.uid, "two objects under one name"
            assert versions.get(metadata.uid, 0) < version, "told twice, or out of order"
            versions[metadata.uid] = version

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        follower = Reflector(server, kind_of(Pod), offer, lambda: None, clock, Random(seed), 2)
        task = asyncio.ensure_future(follower.run())
        await asyncio.sleep(300)
        server.calm = True
        await asyncio.sleep(300)
        task.cancel()

    run_virtual(main)
    there = {name: each["metadata"] for name, each in server.objects.items()}
    assert believed == {name: each["uid"] for name, each in there.items()}
    assert all(versions[each["uid"]] == int(each["resourceVersion"]) for each in there.values())


# --- a kind of which nothing is heard ---------------------------------------------------------------------------------


class Counted(TransportLayer):
    """Counts lists and watches; without `bookmarks` the server sends none."""

    def __init__(self, inner: Transport, *, bookmarks: bool = True) -> None:
        super().__init__(inner)
        self.lists = self.watches = 0
        self._bookmarks = bookmarks

    async def send(self, request: Request) -> Response:
        self.lists += 1
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.watches += 1
        query = tuple(pair for pair in request.query if self._bookmarks or pair[0] != "allowWatchBookmarks")
        async with self._inner.stream(replace(request, query=query)) as stream:
            yield stream


@pytest.mark.parametrize(
    ("bookmarks", "fewest", "most"),
    [
        (True, 3600 // 590, 3600 // 290 + 1),  # each watch ends by its time alone
        (False, 3600 // 90 - 2, 3600 // 90),  # servers that send no bookmarks: silence ends a watch
    ],
)
async def test_quiet_kind_is_listed_once_and_then_only_watched(bookmarks: bool, fewest: int, most: int) -> None:
    cluster = MemoryCluster(LoopClock(asyncio.get_running_loop()), [StorageClass(metadata=ObjectMeta(name="fast"))])
    transport = Counted(
        InProcessTransport(ApiServer(cluster, LoopClock(asyncio.get_running_loop()))), bookmarks=bookmarks
    )
    told = Told()
    task = asyncio.ensure_future(reflector(transport, told, StorageClass).run())
    for minute in range(60):
        await asyncio.sleep(60)
        cluster.put(make_node("busy", labels={"minute": str(minute)}))
    assert (transport.lists, told.take()[-1]) == (1, "listed")
    assert fewest <= transport.watches <= most
    cluster.add(StorageClass(metadata=ObjectMeta(name="slow")))
    await asyncio.sleep(1)
    assert (transport.lists, len(told.take())) == (1, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
