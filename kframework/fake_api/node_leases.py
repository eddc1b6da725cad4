"""Signs of life of kubelets: Leases in `kube-node-lease`, and the heartbeats of node conditions.

They are computed from the clock on each read instead of being written, which would be ten thousand writes a second for
a hundred thousand nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from msgspec.structs import replace

from kframework.clock import Clock, rfc3339, rfc3339_micro, seconds_of
from kframework.fake_api.collection import Collection, DocumentChange, Key
from kframework.fake_api.wire.documents import ApiDocument
from kframework.in_memory.admission import derive_uid
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Kind, Lease, LeaseSpec, Node, ObjectMeta, OwnerReference
from kframework.objects.codec import encode

RENEW_INTERVAL = 10
#: Seconds between heartbeats of unchanged node conditions.
HEARTBEAT_INTERVAL = 300

_HEARTBEAT = b'"lastHeartbeatTime":"'


def last_renewal(node: Node, now: float) -> float:
    """Return the last renewal of a node's Lease, in seconds since 1970; staggered by node."""
    if (lost_at := _lost_since(node)) is not None:
        now = lost_at
    microseconds, offset = int(now * 1_000_000), crc32(node.metadata.name.encode())
    return (microseconds - (microseconds - offset) % (RENEW_INTERVAL * 1_000_000)) / 1_000_000


def with_heartbeats(clock: Clock, document: ApiDocument) -> ApiDocument:
    """Return a live node's document with current heartbeats; other documents are unchanged."""
    subject = document.subject
    if isinstance(subject, Node) and _lost_since(subject) is None:
        return _HeartbeatDocument(document, clock)
    return document


class _HeartbeatDocument(ApiDocument):
    """A node's document whose heartbeats follow the clock."""

    __slots__ = ("_clock", "_next_heartbeat")

    def __init__(self, document: ApiDocument, clock: Clock) -> None:
        super().__init__(document.subject, document.body)
        self._clock = clock
        self._next_heartbeat = -math.inf  # when the next heartbeat is due

    @property
    def body(self) -> bytes:
        now = self._clock.now()
        if now >= self._next_heartbeat:  # in the JSON text, because lists contain thousands
            first, *rest = self._body.split(_HEARTBEAT)
            pieces, self._next_heartbeat = [first], math.inf
            for each in rest:
                time, quote, more = each.partition(b'"')
                heartbeat, next_due = _last_heartbeat(time, int(now))
                pieces.append(heartbeat + quote + more)
                self._next_heartbeat = min(self._next_heartbeat, next_due)
            self._body = _HEARTBEAT.join(pieces)
        return self._body


@lru_cache(maxsize=1024)
def _last_heartbeat(heartbeat: bytes, now: int) -> tuple[bytes, float]:
    """Return the latest heartbeat, and when the next is due; an invalid time never changes."""
    seconds = parse_time(heartbeat.decode())
    if seconds is None:
        return heartbeat, math.inf
    if now - seconds < HEARTBEAT_INTERVAL:
        return heartbeat, seconds + HEARTBEAT_INTERVAL
    last = now - (now - seconds) % HEARTBEAT_INTERVAL
    return rfc3339(last).encode(), last + HEARTBEAT_INTERVAL


def _lost_since(node: Node) -> float | None:
    """Return when a lost kubelet was last heard from (its node is not known to be ready); None if it is alive."""
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "Unknown":
        return None
    return parse_time(ready.last_heartbeat_time or "") or parse_time(node.metadata.creation_timestamp or "") or 0.0


def parse_time(text: str) -> float | None:
    try:
        return seconds_of(text)
    except ValueError:
        return None


NAMESPACE = "kube-node-lease"
#: Seconds without a renewal until a node counts as lost.
_LEASE_SECONDS = 40


class NodeLeases(Collection):
    """The stored Leases, and a virtual one for each node without a stored one.

    A Lease that a client writes under a node's name replaces the virtual one until it is deleted.
    """

    def __init__(self, kind: Kind[ApiObject], cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(kind, cluster)
        self._clock = clock
        for node in cluster.objects(Node):
            self._current.setdefault(_lease_key(node), _KubeletLease(_kubelet_lease(node), cluster, clock))
        self._keys = sorted(self._current)
        cluster.subscribe([Node], self._on_node_change)

    def renewal_interval(self, namespace: str) -> float:
        return RENEW_INTERVAL if namespace in ("", NAMESPACE) else math.inf

    def renewed_documents(self, namespace: str) -> Sequence[ApiDocument]:
        if namespace not in ("", NAMESPACE):
            return ()
        return [each for each in self.documents_at(self.version, NAMESPACE) if isinstance(each, _KubeletLease)]

    def _receive(self, change: Change) -> None:
        super()._receive(change)
        metadata = change.subject.metadata
        if change.new is None and metadata.namespace == NAMESPACE:
            node = self._cluster.find(Node, metadata.name)
            if node is not None:
                old, version = _kubelet_lease(node), str(change.version)  # replaces the deleted one
                uid, now = derive_uid(f"{old.metadata.uid}/{version}"), self._cluster.timestamp()
                metadata = replace(old.metadata, uid=uid, resource_version=version, creation_timestamp=now)
                lease = _KubeletLease(replace(old, metadata=metadata), self._cluster, self._clock)
                self._record(DocumentChange(change.version, lease.key, None, lease))

    def _on_node_change(self, change: Change) -> None:
        key, node = _lease_key(change.subject), change.new
        old = self._current.get(key)
        if isinstance(node, Node) and old is None:
            lease = _KubeletLease(_kubelet_lease(node), self._cluster, self._clock)
            self._record(DocumentChange(change.version, key, None, lease))
        elif node is None and isinstance(old, _KubeletLease):
            self._record(DocumentChange(change.version, key, old, None))


class _KubeletLease(ApiDocument):
    """A Lease that is encoded on each read."""

    __slots__ = ("_clock", "_cluster", "_created_at", "_lease")

    def __init__(self, lease: Lease, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(lease, b"")
        self._lease = lease
        self._cluster = cluster
        self._clock = clock
        self._created_at = parse_time(lease.metadata.creation_timestamp or "") or 0.0

    @property
    def body(self) -> bytes:
        node, now = self._cluster.find(Node, self._lease.metadata.name), self._clock.now()
        renewal = max(self._created_at, last_renewal(node, now) if node is not None else now)
        spec = replace(self._lease.spec, renew_time=rfc3339_micro(renewal))
        return encode(replace(self._lease, spec=spec))


def _kubelet_lease(node: Node) -> Lease:
    name, uid, created = node.metadata.name, node.metadata.uid, node.metadata.creation_timestamp
    return Lease(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=derive_uid(f"leases/{NAMESPACE}/{name}/{uid}"),
            resource_version=node.metadata.resource_version,
            creation_timestamp=created,
            owner_references=(OwnerReference(api_version="v1", kind="Node", name=name, uid=uid),),
        ),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=_LEASE_SECONDS),
    )


def _lease_key(node: ApiObject) -> Key:
    return NAMESPACE, node.metadata.name
