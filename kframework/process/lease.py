"""Leader election: of several schedulers, only the holder of a Lease works.

A leader renews the Lease every retry period. It leads until the renew deadline has passed since it sent the last
successful renewal, regardless of later answers. The others wait until the Lease has not changed for its duration by
their own clock, which is always longer: two never lead, however slow the answers and however wrong the clocks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Coroutine
from random import Random
from typing import TypeVar
from uuid import uuid4

import anyio
from msgspec import structs

from kframework.client.cluster import Cluster
from kframework.client.missing_rights import is_denial
from kframework.client.reachability import is_connection_problem
from kframework.clock import Clock, rfc3339, rfc3339_micro
from kframework.config.models import LeaderElectionSettings
from kframework.errors import ClusterError
from kframework.objects import CoreEvent, EventSource, Lease, LeaseSpec, ObjectMeta
from kframework.objects.kinds import object_reference

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: The maximum jitter factor of the time between two tries to get the lease, so that candidates do not synchronize.
JITTER_FACTOR = 1.2

#: How long a leader's lease may be expired before this process counts as unhealthy, in seconds.
RENEWAL_TOLERANCE = 20.0

#: The time limit for releasing the lease, in seconds: without a network it expires anyway, and the end of this process,
#: for example in a rolling update, waits for it.
RELEASE_TIMEOUT = 3.0

_NEVER = -math.inf


def is_missing_namespace(error: ClusterError) -> bool:
    """Return whether an object cannot be created because its namespace does not exist."""
    return error.status == 404 and error.message.startswith("namespaces ")


def new_identity() -> str:
    """Return a name for this process that no other has: `<hostname>_<uuid>`."""
    return f"{socket.gethostname()}_{uuid4()}"


class LeaderElection:
    """A candidate for a Lease, and its holder while it can renew it.

    `on_started` is called when the lease is won, `on_stopped` when it is lost or released, before another candidate can
    have it: afterwards nothing may be written. `may_lead` is called before every try to get or renew the lease; False
    ends the leadership. Events name `component` as their source.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: LeaderElectionSettings,
        clock: Clock,
        *,
        identity: str,
        component: str,
        random: Random,
        on_started: Callable[[], None],
        on_stopped: Callable[[], None],
        may_lead: Callable[[], bool] = lambda: True,
    ) -> None:
        self.identity = identity
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._component = component
        self._random = random
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._may_lead = may_lead
        self._request_timeout = max(1.0, settings.renew_deadline / 2)
        self._expires = _NEVER
        #: The lease as we wrote it last, and whether we ever tried: a missing answer does not mean failure.
        self._lease = Lease()
        self._tried = False
        #: Whether the last request was answered.
        self._answered = True
        #: The last record of another holder, and the time when it was first seen.
        self._seen: LeaseSpec | None = None
        self._seen_since = _NEVER

    @property
    def leading(self) -> bool:
        """Whether this candidate leads now; thread-safe."""
        return self._clock.now() < self._expires

    def problem(self) -> str | None:
        """Return an error if the leadership is long overdue to be renewed or ended; thread-safe."""
        overdue = self._clock.now() - self._expires
        tolerated = self._settings.lease_duration - self._settings.renew_deadline + RENEWAL_TOLERANCE
        if tolerated < overdue < math.inf:
            return f"failed election to renew leadership on lease {self._settings.resource_name}"
        return None

    async def run(self) -> None:
        """Wait for the lease, hold it, and return when it is lost; on cancellation, release it."""
        announcement = None
        try:
            await self._acquire()
            self._on_started()
            announcement = asyncio.create_task(self._record_event("became leader"))
            await self._renew()
        finally:
            if announcement is not None:
                announcement.cancel()
            await self._stop()

    async def _stop(self) -> None:
        led, self._expires = self._expires > _NEVER, _NEVER
        if led:
            self._on_stopped()
        if not self._answered:
            _log.warning("not releasing lease %s: the server does not answer; it will expire", self._name)
            return
        with anyio.move_on_after(RELEASE_TIMEOUT, shield=True):
            if self._tried:
                await self._release()
            if led:
                await self._record_event("stopped leading")

    async def _acquire(self) -> None:
        _log.info("attempting to acquire leader lease %s", self._name)
        freed = asyncio.Event()
        watching = asyncio.create_task(self._watch(freed))
        try:
            while not await self._try_acquire():
                with anyio.move_on_after(self._settings.retry_period * (1 + JITTER_FACTOR * self._random.random())):
                    await freed.wait()
                freed.clear()
        finally:
            watching.cancel()
        _log.info("successfully acquired lease %s", self._name)

    async def _watch(self, freed: asyncio.Event) -> None:
        """Signal, until cancelled, when the lease is released; if watching is forbidden, polling has to suffice."""

        def on_change(lease: Lease | None) -> None:
            if lease is None or not lease.spec.holder_identity:
                freed.set()

        name, namespace, logged = self._settings.resource_name, self._settings.resource_namespace, ""
        while True:
            try:
                await self._cluster.follow(Lease, name, namespace, on_change)
            except ClusterError as error:
                if str(error) != logged:
                    logged = str(error)
                    _log.info("cannot watch lease %s, polling it instead: %s", self._name, logged)
            await asyncio.sleep(self._settings.retry_period)

    async def _try_acquire(self) -> bool:
        """Acquire the lease if it is free; return whether it is ours now."""
        if not self._may_lead():
            return False
        try:
            found = await self._read()
            if found is not None:
                # A record that changes has a live holder, whatever times it contains.
                now = self._clock.now()
                if found.spec != self._seen:
                    self._seen, self._seen_since = found.spec, now
                over = now >= self._seen_since + (found.spec.lease_duration_seconds or 0)
                if found.spec.holder_identity not in (None, "", self.identity) and not over:
                    return False
            expires = await self._write(found)
        except ClusterError as error:
            lacks_namespace = is_missing_namespace(error)
            remedy = "; create it, or set --leader-elect-resource-namespace" if lacks_namespace else ""
            self._log_failure(logging.ERROR, f"failed to acquire lease %s: %s{remedy}", error)
            return False
        if self._clock.now() >= expires:
            return False
        self._expires = expires
        return True

    async def _renew(self) -> None:
        why = None
        while why is None:
            try:
                async with asyncio.timeout(self._expires - self._clock.now()):
                    await asyncio.sleep(self._settings.retry_period)
                    why = await self._try_renew()
            except TimeoutError:
                why = f"it was not renewed within {self._settings.renew_deadline}"
        _log.error("lost lease %s: %s", self._name, why)

    async def _try_renew(self) -> str | None:
        """Try to renew the lease; return why it is lost, None if it is not, even if this try failed."""
        if not self._may_lead():
            return "the scheduler hangs"
        try:
            try:
                expires = await self._write(self._lease)  # optimistically, as if it were unchanged
            except ClusterError as error:
                text = "failed to update lease %s optimistically, falling back to slow path: %s"
                self._log_failure(logging.WARNING, text, error)
                found = await self._read()
                if found is not None and not self._is_ours(found):
                    return f"it is held by {found.spec.holder_identity or 'nobody'}"
                expires = await self._write(found)
        except ClusterError as error:
            self._log_failure(logging.ERROR, "failed to renew lease %s: %s", error)
            return None
        if not self.leading:
            return "the response to its renewal came too late"
        self._expires = expires
        return None

    async def _release(self) -> None:
        """Release the lease, if it still is ours; otherwise, and if that fails, it expires."""
        try:
            try:
                await self._clear_holder()
            except ClusterError as error:
                if error.status != 409:
                    raise
                await self._clear_holder()  # an abandoned renewal of ours came in between
        except ClusterError as error:
            self._log_failure(logging.ERROR, "failed to release lease %s: %s", error)

    async def _clear_holder(self) -> None:
        found = await self._read()
        if found is not None and self._is_ours(found):
            now = rfc3339_micro(self._clock.now())
            nobody = structs.replace(
                found.spec, holder_identity="", lease_duration_seconds=1, acquire_time=now, renew_time=now
            )
            await self._await_answer(self._cluster.update(structs.replace(found, spec=nobody)))

    @property
    def _name(self) -> str:
        return f"{self._settings.resource_namespace}/{self._settings.resource_name}"

    def _is_ours(self, lease: Lease) -> bool:
        return lease.spec.holder_identity == self.identity

    async def _read(self) -> Lease | None:
        name, namespace = self._settings.resource_name, self._settings.resource_namespace
        try:
            return await self._await_answer(self._cluster.get(Lease, name, namespace))
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, found: Lease | None) -> float:
        """Write ourselves into the lease, a new one if none was found; return until when we then lead."""
        self._tried = True
        sent = self._clock.now()
        if found is None:
            metadata = ObjectMeta(name=self._settings.resource_name, namespace=self._settings.resource_namespace)
            lease = Lease(metadata=metadata, spec=self._record(sent, None))
            self._lease = await self._await_answer(self._cluster.create(lease))
        else:
            lease = structs.replace(found, spec=self._record(sent, found))
            self._lease = await self._await_answer(self._cluster.update(lease))
        return sent + self._settings.renew_deadline

    def _record(self, now: float, found: Lease | None) -> LeaseSpec:
        """Return the lease record with us as its holder: only the time changes if it was ours."""
        record = LeaseSpec(
            holder_identity=self.identity,
            # Rounded up: others must not take over while we lead.
            lease_duration_seconds=math.ceil(self._settings.lease_duration),
            acquire_time=rfc3339_micro(now),
            renew_time=rfc3339_micro(now),
            lease_transitions=0,
        )
        if found is None:
            return record
        old, transitions = found.spec, found.spec.lease_transitions or 0
        if self._is_ours(found):
            return structs.replace(record, acquire_time=old.acquire_time, lease_transitions=transitions)
        return structs.replace(record, lease_transitions=transitions + 1)

    async def _record_event(self, what: str) -> None:
        """Record an Event about the lease, in the older of the two APIs as every leader election does."""
        now, metadata = self._clock.now(), self._lease.metadata
        event = CoreEvent(
            metadata=ObjectMeta(name=f"{metadata.name}.{int(now * 1e9):x}", namespace=metadata.namespace),
            involved_object=object_reference(self._lease),
            reason="LeaderElection",
            message=f"{self.identity} {what}",
            type="Normal",
            source=EventSource(component=self._component),
            reporting_component=self._component,
            first_timestamp=rfc3339(now),
            last_timestamp=rfc3339(now),
            count=1,
        )
        try:
            await self._await_answer(self._cluster.create(event))
        except ClusterError as error:
            self._log_failure(logging.WARNING, "could not record an event about lease %s: %s", error)

    def _log_failure(self, level: int, text: str, error: ClusterError) -> None:
        """Log an error with the lease, unless it is a missing permission or connection, which is already logged."""
        if not is_denial(error.message):
            _log.log(logging.INFO if is_connection_problem(error) else level, text, self._name, error)

    async def _await_answer(self, call: Coroutine[object, object, T]) -> T:
        try:
            async with asyncio.timeout(self._request_timeout):
                answer = await call
        except ClusterError as error:
            self._answered = error.status != 0
            raise
        except TimeoutError as error:
            self._answered = False
            message = f"no answer within {self._request_timeout:g} s"
            raise ClusterError(message, status=0, reason="Timeout", retryable=True) from error
        self._answered = True
        return answer
