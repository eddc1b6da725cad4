"""How kubelets show that they live: they renew a Lease, and repeat what they say of their node.

Nothing is written for that, which at a hundred thousand nodes would be ten thousand writes a second: when a kubelet has
done so last follows from the clock whenever somebody looks.
"""

from __future__ import annotations

import math
from functools import lru_cache
from zlib import crc32

from kframework.clock import Clock, rfc3339, seconds_of
from kframework.fake_api.wire.documents import Document
from kframework.objects import Node

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
        if now >= self._until:
            self._body, self._until = _repeated(self._body, int(now))
        return self._body


def _repeated(body: bytes, now: int) -> tuple[bytes, float]:
    """Return a body with the latest heartbeats, and when the next is due, without decoding: thousands are listed."""
    first, *rest = body.split(_HEARTBEAT)
    pieces, due = [first], math.inf
    for each in rest:
        said, quote, more = each.partition(b'"')
        heartbeat, following = _latest(said, now)
        pieces.append(heartbeat + quote + more)
        due = min(due, following)
    return _HEARTBEAT.join(pieces), due


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
