"""Keeping up with one kind of object: list it in pages, then follow its changes, through whatever happens on the way.

Streaming lists would spare the server some memory and need a fallback to these paged ones anyway; they are not used.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from random import Random
from typing import Generic, NoReturn

import msgspec

from kframework.client.missing_rights import lacks_right
from kframework.client.rest import path_of, refusal
from kframework.client.transport import Request, Transport
from kframework.client.wire import Undecodable, pages, read_event
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Kind, ObjectMeta, Pod
from kframework.objects.kinds import T
from kframework.state.inbox import Changed, Gone, Message

_log = logging.getLogger(__name__)


#: A watch is ended by the server after a random time within these bounds, in seconds, so that watches spread over the
#: servers, and given up here when nothing came for SILENCE: servers send a bookmark about every minute.
SHORTEST_WATCH = 290
LONGEST_WATCH = 590
SILENCE = 90.0

#: A watch that ends sooner than this, in seconds, has failed, as in client-go: else an empty answer makes a busy loop.
SHORT = 1.0

#: Answers that say nothing against the version from which a watch was asked for. After any other the kind is listed
#: again: 410 is the usual one, 504 comes when the server has not reached that version.
_VERSION_STANDS = frozenset({0, 401, 403, 408, 429, 500, 502, 503})


class Backoff:
    """Pauses in seconds, doubling from failure to failure and up to twice as long by chance, as client-go's."""

    FIRST = 0.8
    LONGEST = 30.0

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = self.FIRST

    def pause(self) -> float:
        """Return how long to rest after one more failure."""
        pause = self._next * (1 + self._random.random())
        self._next = min(self._next * 2, self.LONGEST)
        return pause

    def reset(self) -> None:
        """Begin with the shortest pause again."""
        self._next = self.FIRST


class _CacheEntry(msgspec.Struct, gc=False):
    """What is remembered of an object; `last` is None for pods, which the scheduler's state knows by uid."""

    uid: str
    version: str
    last: ApiObject | None


#: The query for the pods that have not ended.
_UNENDED = (("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed"),)


class Reflector(Generic[T]):
    """Tells `offer` of every object of a kind as it comes, changes and goes; calls `listed` after the first listing.

    Pods that have ended are gone, unless `ended_pods` are asked for.
    """

    def __init__(
        self,
        transport: Transport,
        kind: Kind[T],
        offer: Callable[[Message], None],
        listed: Callable[[], None],
        clock: Clock,
        random: Random,
        page: int,
        *,
        ended_pods: bool = False,
    ) -> None:
        self.kind = kind
        self._transport = transport
        self._offer = offer
        self._listed: Callable[[], None] | None = listed
        self._clock = clock
        self._random = random
        self._limit = page
        self._path = path_of(kind)
        self._selection = _UNENDED if kind.struct is Pod and not ended_pods else ()
        #: The version up to which everything has been told; "" before the first listing and when it must be repeated.
        self._version = ""
        self._known: dict[tuple[str, str], _CacheEntry] = {}
        self._undecodable: set[tuple[str, str]] = set()
        self._backoff = Backoff(random)
        self._heard = False
        self._failures = 0
        self._problem = ""

    async def run(self) -> NoReturn:
        """Keep up for ever."""
        while True:
            rest = await self.round()
            await asyncio.sleep(rest)

    async def round(self) -> float:
        """List if need be and follow until that ends, well or not; return how many seconds to rest."""
        began, self._heard = self._clock.now(), False
        error: ClusterError | None = None
        try:
            if not self._version:
                await self._list_all()
            await self._follow()
        except ClusterError as refused:
            error = refused
            if refused.status not in _VERSION_STANDS:
                self._version = ""
        lasted = self._clock.now() - began
        if self._heard or lasted >= SILENCE:
            self._backoff.reset()
            self._failures, self._problem = 0, ""
        if error is None and lasted >= SHORT:
            return 0.0
        self._complain(error or ClusterError("the watch ended at once", status=0))
        return self._backoff.pause()

    async def _list_all(self) -> None:
        """Tell what differs from what is known."""
        try:
            await self._list(self._limit)
        except ClusterError as error:
            if error.status == 404 and "/" in self.kind.api_version:
                self._tell_listed()  # a server without this API has no objects of it; what is known of them stands
            if error.status != 410:
                raise
            # The pages took longer than the server remembers the version of the first one: then all in one.
            await self._list(0)
        self._tell_listed()

    async def _list(self, limit: int) -> None:
        seen: set[tuple[str, str]] = set()
        version = ""
        async for page in pages(self._transport, self.kind, limit, selection=self._selection):
            version = page.version
            for item in page.items:
                seen.add((item.metadata.namespace, item.metadata.name))
                self._take(item)
        self._undecodable &= seen
        for key in [key for key in self._known if key not in seen]:
            self._drop(key)
        self._version = version

    def _tell_listed(self) -> None:
        listed, self._listed = self._listed, None
        if listed is not None:
            listed()

    async def _follow(self) -> None:
        """Tell what changes until the server ends the watch; raises ClusterError."""
        query = (
            *self._selection,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(self._random.randint(SHORTEST_WATCH, LONGEST_WATCH))),
        )
        request = Request(method="GET", path=self._path, query=query, timeout=SILENCE)
        async with self._transport.stream(request) as stream:
            if stream.status != 200:
                body = b"\n".join([line async for line in stream.lines])
                raise refusal(request, stream.status, body)
            async for line in stream.lines:
                event, subject = read_event(line, self.kind)
                self._heard = True
                metadata = subject.metadata
                if not _is_newer(metadata.resource_version, self._version):
                    continue  # it has been told already
                self._version = metadata.resource_version
                if event in ("ADDED", "MODIFIED"):
                    self._take(subject)
                elif event == "DELETED":
                    self._drop((metadata.namespace, metadata.name), subject)

    def _take(self, subject: T | Undecodable) -> None:
        """Tell of an object unless this version of it is known."""
        metadata = subject.metadata
        key = (metadata.namespace, metadata.name)
        known = self._known.get(key)
        if known is not None and known.uid != metadata.uid:
            self._drop(key)
            known = None
        if isinstance(subject, Undecodable):
            if key not in self._undecodable:
                self._undecodable.add(key)
                name = "/".join(filter(None, key)) or "without a name"
                _log.error("%s %s cannot be understood and is passed over: %s", self.kind.name, name, subject.why)
            return
        last = None if isinstance(subject, Pod) else subject
        if known is None:
            # Every object brings a string of its own for the namespace that it shares with many others.
            key = (sys.intern(metadata.namespace), metadata.name)
            self._known[key] = _CacheEntry(metadata.uid, metadata.resource_version, last)
        elif known.version == metadata.resource_version:
            return
        else:
            known.version, known.last = metadata.resource_version, last
        self._offer(Changed(subject))

    def _drop(self, key: tuple[str, str], last: T | Undecodable | None = None) -> None:
        """Tell that an object is gone, as the watch showed it last if it did."""
        self._undecodable.discard(key)
        known = self._known.pop(key, None)
        if known is None:
            return
        if last is not None and not isinstance(last, Undecodable) and last.metadata.uid == known.uid:
            self._offer(Gone(last))
            return
        namespace, name = key
        self._offer(Gone(known.last or Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid=known.uid))))

    def _complain(self, error: ClusterError) -> None:
        """Log what went wrong, once in a row; a lost connection or an old version are nothing if the next try helps.

        A missing right was said where it was noted.
        """
        if lacks_right(error.message):
            return
        self._failures += 1
        if self._failures == 1 and error.status in (0, 410):
            _log.info("watching %s: %s", self.kind.plural, error)
        elif self._problem != str(error):
            self._problem = str(error)
            version, outcome = self.kind.api_version, ""
            if error.status == 404 and "/" in version:
                outcome = f"; this server has no {version}: they count as none until it has"
            _log.warning("watching %s: %s%s", self.kind.plural, error, outcome)


def _is_newer(version: str, than: str) -> bool:
    """Compare resource versions: they count upwards where they are numbers; otherwise, only the same is not newer."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
