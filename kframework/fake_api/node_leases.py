"""How kubelets show that they live: Leases in `kube-node-lease`, and the heartbeats of node conditions.

Nothing is written for that, which at a hundred thousand nodes would be ten thousand writes a second: when a kubelet has
done so last follows from the clock whenever somebody looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from msgspec.structs import replace

from kframework.clock import Clock, rfc3339, rfc3339_micro, seconds_of
from kframework.fake_api.collection import Collection, Key, Written
from kframework.fake_api.wire.documents import Document
from kframework.in_memory.admission import uid_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Kind, Lease, LeaseSpec, Node, ObjectMeta, OwnerReference
from kframework.objects.codec import encode

#: So often a kubelet renews its Lease, in seconds.
RENEW_EVERY = 10
#: So often it repeats the conditions of its node if they have not changed, in seconds.
REPORT_EVERY = 300

_HEARTBEAT = b'"lastHeartbeatTime":"'


def renewed_at(node: Node, now: float) -> float:
    """Return when the kubelet of a node has renewed its Lease last, in seconds since 1970; not all do so at once."""
    if (silent := _silent_since(node)) is not None:
        now = silent
    microseconds, own = int(now * 1_000_000), crc32(node.metadata.name.encode())
    return (microseconds - (microseconds - own) % (RENEW_EVERY * 1_000_000)) / 1_000_000


def beating(clock: Clock, document: Document) -> Document:
    """Return a node whose conditions have been repeated, for as long as its kubelet lives; any other as it is."""
    subject = document.subject
    if isinstance(subject, Node) and _silent_since(subject) is None:
        return _Beating(document, clock)
    return document


class _Beating(Document):
    """A node whose kubelet has said the same again and again since its conditions were written."""

    __slots__ = ("_clock", "_until")

    def __init__(self, document: Document, clock: Clock) -> None:
        super().__init__(document.subject, document.body)
        self._clock = clock
        self._until = -math.inf  # when the next heartbeat is due

    @property
    def body(self) -> bytes:
        now = self._clock.now()
        if now >= self._until:  # without decoding: thousands are listed
            first, *rest = self._body.split(_HEARTBEAT)
            pieces, self._until = [first], math.inf
            for each in rest:
                said, quote, more = each.partition(b'"')
                heartbeat, following = _latest(said, int(now))
                pieces.append(heartbeat + quote + more)
                self._until = min(self._until, following)
            self._body = _HEARTBEAT.join(pieces)
        return self._body


@lru_cache(maxsize=1024)
def _latest(heartbeat: bytes, now: int) -> tuple[bytes, float]:
    """Return the last heartbeat after another, and when the next is due; after what is no time comes none."""
    said = moment(heartbeat.decode())
    if said is None:
        return heartbeat, math.inf
    if now - said < REPORT_EVERY:
        return heartbeat, said + REPORT_EVERY
    last = now - (now - said) % REPORT_EVERY
    return rfc3339(last).encode(), last + REPORT_EVERY


def _silent_since(node: Node) -> float | None:
    """Return when a kubelet that is gone was heard of last: nobody knows whether its node is ready. Else None."""
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "Unknown":
        return None
    return moment(ready.last_heartbeat_time or "") or moment(node.metadata.creation_timestamp or "") or 0.0


def moment(text: str) -> float | None:
    """Read a time; None for text that is none."""
    try:
        return seconds_of(text)
    except ValueError:
        return None


#: Where they are.
NAMESPACE = "kube-node-lease"
#: After how many seconds without a renewal a node counts as lost.
_DURATION = 40


class NodeLeases(Collection):
    """The Leases that are stored, and for each node without one of its name there that of its kubelet.

    What somebody writes in the place of a kubelet's is stored as any other, and the kubelet leaves it alone; if that
    goes, the kubelet makes its own again.
    """

    def __init__(self, kind: Kind[ApiObject], cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(kind, cluster)
        self._clock = clock
        for node in cluster.objects(Node):
            self._current.setdefault(_key(node), _KubeletLease(_made_by(node), cluster, clock))
        self._keys = sorted(self._current)
        cluster.subscribe([Node], self._follow)

    def renewed_every(self, namespace: str) -> float:
        return RENEW_EVERY if namespace in ("", NAMESPACE) else math.inf

    def renewed(self, namespace: str) -> Sequence[Document]:
        if namespace not in ("", NAMESPACE):
            return ()
        return [each for each in self.at(self.version, NAMESPACE) if isinstance(each, _KubeletLease)]

    def _receive(self, change: Change) -> None:
        super()._receive(change)
        metadata = change.subject.metadata
        if change.new is None and metadata.namespace == NAMESPACE:
            node = self._cluster.find(Node, metadata.name)
            if node is not None:
                old, written = _made_by(node), str(change.version)  # it makes its own again
                uid, now = uid_of(f"{old.metadata.uid}/{written}"), self._cluster.timestamp()
                metadata = replace(old.metadata, uid=uid, resource_version=written, creation_timestamp=now)
                lease = _KubeletLease(replace(old, metadata=metadata), self._cluster, self._clock)
                self._take_down(Written(change.version, lease.key, None, lease))

    def _follow(self, change: Change) -> None:
        """Have a Lease come and go with its node."""
        key, node = _key(change.subject), change.new
        old = self._current.get(key)
        if isinstance(node, Node) and old is None:
            lease = _KubeletLease(_made_by(node), self._cluster, self._clock)
            self._take_down(Written(change.version, key, None, lease))
        elif node is None and isinstance(old, _KubeletLease):
            self._take_down(Written(change.version, key, old, None))


class _KubeletLease(Document):
    """A Lease whose JSON is written whenever somebody looks."""

    __slots__ = ("_clock", "_cluster", "_lease", "_made")

    def __init__(self, lease: Lease, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(lease, b"")
        self._lease = lease
        self._cluster = cluster
        self._clock = clock
        self._made = moment(lease.metadata.creation_timestamp or "") or 0.0

    @property
    def body(self) -> bytes:
        node, now = self._cluster.find(Node, self._lease.metadata.name), self._clock.now()
        renewed = max(self._made, renewed_at(node, now) if node is not None else now)
        spec = replace(self._lease.spec, renew_time=rfc3339_micro(renewed))
        return encode(replace(self._lease, spec=spec))


def _made_by(node: Node) -> Lease:
    """Return what a kubelet has made with its node."""
    name, uid, created = node.metadata.name, node.metadata.uid, node.metadata.creation_timestamp
    return Lease(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=uid_of(f"leases/{NAMESPACE}/{name}/{uid}"),
            resource_version=node.metadata.resource_version,
            creation_timestamp=created,
            owner_references=(OwnerReference(api_version="v1", kind="Node", name=name, uid=uid),),
        ),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=_DURATION),
    )


def _key(node: ApiObject) -> Key:
    return NAMESPACE, node.metadata.name
