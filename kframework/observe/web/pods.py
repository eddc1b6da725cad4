"""The waiting pods, place by place, for display; to show the first of many costs only these."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping

import msgspec

from kframework.core.queue.pool import PluginKey
from kframework.observe.web.view import EngineView, PodView
from kframework.scheduler.scheduler import E
from kframework.state.pods import PodInfo

#: The maximum numbers of pods shown of a place, and of those found by name.
SHOWN, FOUND = 200, 50

#: The number of pods looked at before other tasks have their turn.
_PIECE = 500


class HeldCount(msgspec.Struct, frozen=True):
    """The number of pods of a profile that wait for a plugin."""

    profile: str
    plugin: str
    pods: int


class Queues(msgspec.Struct, frozen=True):
    """The numbers of pods waiting in each place and for each plugin, and the first of the requested pods.

    `total` is the number of all requested pods.
    """

    counts: Mapping[str, int]
    held: tuple[HeldCount, ...]
    total: int
    pods: tuple[PodView, ...]


class Found(msgspec.Struct, frozen=True):
    """A pod found by name: the place where it waits, or its node."""

    pod: str
    place: str
    node: str


def queues(shown: EngineView[E], *, place: str = "", held_by: PluginKey | None = None, most: int = SHOWN) -> Queues:
    """Show the first pods in one place, or of all places in turn, or those that a plugin (profile, name) holds back."""
    counts, held = shown.places(), shown.holders()
    if held_by is not None:
        chosen, total = shown.held_by(held_by), held.get(held_by, 0)
    elif place:
        chosen, total = shown.waiting(place), counts.get(place, 0)
    else:
        chosen, total = itertools.chain.from_iterable(map(shown.waiting, counts)), sum(counts.values())
    return Queues(
        counts,
        tuple(
            HeldCount(*holder, count) for holder, count in sorted(held.items(), key=lambda item: (-item[1], item[0]))
        ),
        total,
        tuple(itertools.islice(chosen, most)),
    )


def find_pods(shown: EngineView[E], text: str) -> Generator[None, None, tuple[Found, ...]]:
    """Find pods that have the text in their `namespace/name`, those of this scheduler first; yields now and then."""
    cluster = shown.engine.cluster
    found: dict[str, Found] = {}  # by uid, as a pod that is assumed on a node is among the pending ones too
    every: tuple[Mapping[str, PodInfo], ...] = (shown.engine.pending, cluster.pods)
    for pods in every:
        for looked_at, pod in enumerate(list(pods.values()), 1):
            if text in pod.key:
                known = cluster.pods.get(pod.uid)
                found[pod.uid] = Found(pod.key, shown.place_of(pod), known.node_name if known is not None else "")
                if len(found) == FOUND:
                    return tuple(found.values())
            if looked_at % _PIECE == 0:
                yield
    return tuple(found.values())
