"""The pods that wait, queue by queue, for somebody to look at; to show the first of many costs only these."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping

import msgspec

from kframework.clock import seconds_of
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.queued_pod import QueuedPod
from kframework.observe.history import History
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.waiting import ReservedPod

#: Pods that have a place on a node, until they are bound: where they are between the queues and the node.
BINDING = "binding"

#: So many pods are shown of a queue, and so many of those whose name was asked for.
SHOWN, FOUND = 200, 50

#: So many pods are looked at before others have their turn.
_PIECE = 500


class WaitingPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that waits: in one of the queues, or in its binding cycle (`place` "binding").

    `since` is when it was created, `queued` when it last entered the queue, `until` when its rest or its wait in Permit
    ends; seconds since 1970. `plugins` hold it back, in this `hook` if it is being bound, since `asked`. `node` is the
    one it is nominated to, or has its place on.
    """

    pod: str
    place: str
    profile: str
    priority: int
    since: float | None
    queued: float
    tries: int
    plugins: tuple[str, ...] = ()
    until: float | None = None
    node: str = ""
    message: str = ""
    hook: str = ""
    asked: float | None = None


class HeldBack(msgspec.Struct, frozen=True):
    """How many pods of a profile a plugin holds back."""

    profile: str
    plugin: str
    pods: int


class Queues(msgspec.Struct, frozen=True):
    """How many pods wait in each place, who holds how many back, and the first pods of what was asked for.

    `total` is how many these are the first of.
    """

    counts: Mapping[str, int]
    held: tuple[HeldBack, ...]
    total: int
    pods: tuple[WaitingPod, ...]


class Found(msgspec.Struct, frozen=True):
    """A pod whose name has what was asked for: where it waits, or the node that it is on."""

    pod: str
    place: str
    node: str


def queues(
    engine: PodEngine,
    history: History,
    *,
    place: str = "",
    held_by: tuple[str, str] | None = None,
    shown: int = SHOWN,
) -> Queues:
    """Show the pods in one place, or of all places in turn, or those that a plugin (profile, name) holds back."""
    queue = engine.queue
    counts = {**queue.pending(), BINDING: len(engine.cluster.waiting)}
    held = queue.holders()
    chosen: Iterable[QueuedPod | ReservedPod]
    if held_by is not None:
        chosen, total = queue.held_by(held_by), held[held_by]
    elif place:
        chosen, total = _in_place(engine, place), counts.get(place, 0)
    else:
        chosen, total = itertools.chain(*(_in_place(engine, each) for each in counts)), sum(counts.values())
    return Queues(
        counts,
        tuple(HeldBack(*holder, count) for holder, count in sorted(held.items(), key=lambda item: (-item[1], item[0]))),
        total,
        tuple(_shown(engine, history, pod) for pod in itertools.islice(chosen, shown)),
    )


def _in_place(engine: PodEngine, place: str) -> Iterator[QueuedPod | ReservedPod]:
    if place == BINDING:
        return iter(engine.cluster.waiting)
    return engine.queue.waiting(place) if place in engine.queue.pending() else iter(())


def _shown(engine: PodEngine, history: History, waiting: QueuedPod | ReservedPod) -> WaitingPod:
    pod = waiting.pod
    place = BINDING if isinstance(waiting, ReservedPod) else engine.queue.place_of(pod.uid)
    created = pod.object.metadata.creation_timestamp
    head = pod.key, place, pod.scheduler_name, pod.priority, seconds_of(created) if created else None
    if isinstance(waiting, ReservedPod):
        tries = max((decision.tries for decision in history.of(pod.uid).decisions), default=1)
        hook, asked = waiting.asked
        return WaitingPod(
            *head,
            waiting.since,
            tries,
            tuple(asked),
            waiting.deadline,
            waiting.node_name,
            hook=hook if asked else "",
            asked=min(asked.values(), default=None),
        )
    return WaitingPod(
        *head,
        waiting.timestamp,
        waiting.attempts,
        plugins=(waiting.gating_plugin,) if place == "gated" else tuple(sorted(waiting.rejectors)),
        until=engine.queue.resting_until(waiting) if place == "backoff" else None,
        node=engine.cluster.nominator.node_of(pod.uid),
        message=_message(history, pod),
    )


def _message(history: History, pod: PendingPod) -> str:
    """Return how the last attempt or its binding ended, or the pod's condition where none is remembered."""
    decisions = history.of(pod.uid).decisions
    if decisions:
        binding = history.binding(decisions[-1])
        return binding.message if binding is not None else decisions[-1].message
    said = (condition.message for condition in pod.status.conditions if condition.type == "PodScheduled")
    return next(said, "")


def find_pods(engine: PodEngine, text: str) -> Generator[None, None, tuple[Found, ...]]:
    """Find pods that have the text in their `namespace/name`, those of this scheduler first; yields now and then."""
    found: dict[str, Found] = {}  # by uid, as a pod that is assumed on a node is among the pending ones too
    for pods in (engine.handlers.pending, engine.cluster.pods):
        for looked_at, pod in enumerate(list(pods.values()), 1):
            if text in pod.key:
                found[pod.uid] = Found(pod.key, _place(engine, pod), _node(engine, pod))
                if len(found) == FOUND:
                    return tuple(found.values())
            if looked_at % _PIECE == 0:
                yield
    return tuple(found.values())


def _node(engine: PodEngine, pod: PodInfo) -> str:
    known = engine.cluster.pods.get(pod.uid)
    return known.node_name if known is not None else ""


def _place(engine: PodEngine, pod: PodInfo) -> str:
    if engine.cluster.waiting.get(pod.uid) is not None:
        return BINDING
    return engine.queue.place_of(pod.uid)
