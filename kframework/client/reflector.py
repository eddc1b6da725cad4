"""Mirror one kind of object: list it in pages, then watch it, through lost connections and expired versions.

Streaming lists are not used: they save the server some memory, but need this paged list as a fallback anyway.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from random import Random
from typing import Generic, NoReturn

import msgspec

from kframework.client.missing_rights import is_denial
from kframework.client.reachability import is_connection_problem
from kframework.client.rest import object_path, response_error
from kframework.client.transport import Request, Transport
from kframework.client.wire import UndecodableObject, list_pages, read_event
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Kind, ObjectMeta, Pod
from kframework.objects.kinds import T
from kframework.state.inbox import Deleted, Message, Upserted

_log = logging.getLogger(__name__)


#: A watch ends after a random time within these bounds, in seconds, so that watches spread over the servers. It is
#: abandoned after WATCH_IDLE_TIMEOUT seconds without data: servers send a bookmark about every minute.
MIN_WATCH_SECONDS = 290
MAX_WATCH_SECONDS = 590
WATCH_IDLE_TIMEOUT = 90.0

#: A watch that ends within this many seconds has failed, as in client-go; otherwise empty answers cause a busy loop.
FAILED_WATCH_SECONDS = 1.0

#: Statuses after which the watch resumes from the same version. After any other the kind is listed again: 410 is the
#: usual one, 504 means that the server has not reached that version.
_VERSION_KEPT_STATUSES = frozenset({0, 401, 403, 408, 429, 500, 502, 503})


class ReconnectBackoff:
    """Pauses in seconds that double with each failure, plus up to 100 % at random, as in client-go."""

    INITIAL = 0.8
    MAX = 30.0

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = self.INITIAL

    def pause(self) -> float:
        pause = self._next * (1 + self._random.random())
        self._next = min(self._next * 2, self.MAX)
        return pause

    def reset(self) -> None:
        self._next = self.INITIAL


class _KnownObject(msgspec.Struct, gc=False):
    """A known object; `last` is None for pods, which the scheduler's state has by uid."""

    uid: str
    version: str
    last: ApiObject | None


#: The query for pods that have not ended.
_UNENDED_PODS = (("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed"),)


class Reflector(Generic[T]):
    """Reports each object of a kind to `offer` when it changes or goes; calls `on_listed` after the first list.

    Pods that have ended count as gone, unless `ended_pods` is set.
    """

    def __init__(
        self,
        transport: Transport,
        kind: Kind[T],
        offer: Callable[[Message], None],
        on_listed: Callable[[], None],
        clock: Clock,
        random: Random,
        page: int,
        *,
        ended_pods: bool = False,
    ) -> None:
        self.kind = kind
        self._transport = transport
        self._offer = offer
        self._on_listed: Callable[[], None] | None = on_listed
        self._clock = clock
        self._random = random
        self._limit = page
        self._path = object_path(kind)
        self._selection = _UNENDED_PODS if kind.struct is Pod and not ended_pods else ()
        #: The version up to which everything is reported; "" if the kind must be listed.
        self._version = ""
        self._known: dict[tuple[str, str], _KnownObject] = {}
        self._undecodable: set[tuple[str, str]] = set()
        self._backoff = ReconnectBackoff(random)
        self._has_events = False
        self._failures = 0
        self._problem = ""

    async def run(self) -> NoReturn:
        while True:
            pause = await self.run_round()
            await asyncio.sleep(pause)

    async def run_round(self) -> float:
        """List if necessary, and watch until that ends; return how many seconds to pause."""
        start, self._has_events = self._clock.now(), False
        error: ClusterError | None = None
        try:
            if not self._version:
                await self._list_all()
            await self._follow()
        except ClusterError as failure:
            error = failure
            if failure.status not in _VERSION_KEPT_STATUSES:
                self._version = ""
        lasted = self._clock.now() - start
        if self._has_events or lasted >= WATCH_IDLE_TIMEOUT:
            self._backoff.reset()
            self._failures, self._problem = 0, ""
        if error is None and lasted >= FAILED_WATCH_SECONDS:
            return 0.0
        self._log_failure(error or ClusterError("the watch ended at once", status=0))
        return self._backoff.pause()

    async def _list_all(self) -> None:
        try:
            await self._list(self._limit)
        except ClusterError as error:
            if error.status == 404 and "/" in self.kind.api_version:
                self._report_listed()  # a server without this API has no objects of it; known ones are kept
            if error.status != 410:
                raise
            # The first page's version expired before the last page was read: read everything in one page.
            await self._list(0)
        self._report_listed()

    async def _list(self, limit: int) -> None:
        seen: set[tuple[str, str]] = set()
        version = ""
        async for page in list_pages(self._transport, self.kind, limit, selection=self._selection):
            version = page.version
            for item in page.items:
                seen.add(self._upsert(item))
        self._undecodable &= seen
        for key in [key for key in self._known if key not in seen]:
            self._delete(key)
        self._version = version

    def _report_listed(self) -> None:
        on_listed, self._on_listed = self._on_listed, None
        if on_listed is not None:
            on_listed()

    async def _follow(self) -> None:
        """Report changes until the server ends the watch; raises ClusterError."""
        query = (
            *self._selection,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(self._random.randint(MIN_WATCH_SECONDS, MAX_WATCH_SECONDS))),
        )
        request = Request(method="GET", path=self._path, query=query, timeout=WATCH_IDLE_TIMEOUT)
        async with self._transport.stream(request) as stream:
            if stream.status != 200:
                body = b"\n".join([line async for line in stream.lines])
                raise response_error(request, stream.status, body)
            async for line in stream.lines:
                event, subject = read_event(line, self.kind)
                self._has_events = True
                metadata = subject.metadata
                if not _is_newer(metadata.resource_version, self._version):
                    continue  # reported already
                self._version = metadata.resource_version
                if event in ("ADDED", "MODIFIED"):
                    self._upsert(subject)
                elif event == "DELETED":
                    self._delete((metadata.namespace, metadata.name), subject)

    def _upsert(self, subject: T | UndecodableObject) -> tuple[str, str]:
        """Report an object unless this version of it is known; return its namespace and name."""
        metadata = subject.metadata
        # Share one string per namespace: every decoded object has its own.
        key = (sys.intern(metadata.namespace), metadata.name)
        known = self._known.get(key)
        if known is not None and known.uid != metadata.uid:
            self._delete(key)
            known = None
        if isinstance(subject, UndecodableObject):
            if key not in self._undecodable:
                self._undecodable.add(key)
                name = "/".join(filter(None, key)) or "without a name"
                _log.error("skipping %s %s: cannot decode: %s", self.kind.name, name, subject.problem)
            return key
        last = None if isinstance(subject, Pod) else subject
        if known is None:
            self._known[key] = _KnownObject(metadata.uid, metadata.resource_version, last)
        elif known.version == metadata.resource_version:
            return key
        else:
            known.version, known.last = metadata.resource_version, last
        self._offer(Upserted(subject))
        return key

    def _delete(self, key: tuple[str, str], last: T | UndecodableObject | None = None) -> None:
        """Report an object as gone, in its last version if the watch showed it."""
        self._undecodable.discard(key)
        known = self._known.pop(key, None)
        if known is None:
            return
        if last is not None and not isinstance(last, UndecodableObject) and last.metadata.uid == known.uid:
            self._offer(Deleted(last))
            return
        namespace, name = key
        self._offer(Deleted(known.last or Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid=known.uid))))

    def _log_failure(self, error: ClusterError) -> None:
        """Log a failure, once in a row; the first lost connection or expired version is only informational.

        `MissingRights` logs missing rights, `Reachability` a server that does not answer.
        """
        if is_denial(error.message):
            return
        self._failures += 1
        if is_connection_problem(error) or (self._failures == 1 and error.status == 410):
            _log.info("watching %s: %s", self.kind.plural, error)
        elif self._problem != str(error):
            self._problem = str(error)
            version, outcome = self.kind.api_version, ""
            if error.status == 404 and "/" in version:
                outcome = f"; this server does not serve {version}: treated as empty until it does"
            _log.warning("watching %s: %s%s", self.kind.plural, error, outcome)


def _is_newer(version: str, than: str) -> bool:
    """Compare resource versions: as numbers if they are, otherwise any other version is newer."""
    try:
        return int(version) > int(than)
    except ValueError:
        return version != than
