"""The waiting pods by queue, for display; only the shown ones are created."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping

import msgspec

from kframework.core.queue.pool import PluginKey
from kframework.observe.web.view import EngineView, PodView
from kframework.scheduler.scheduler import E
from kframework.state.pods import PodInfo

#: The maximum numbers of pods shown of a queue, and of matches by name.
MAX_SHOWN, MAX_MATCHES = 200, 50

#: The number of pods examined before other tasks run.
_PODS_PER_SLICE = 500


class HeldCount(msgspec.Struct, frozen=True):
    """The number of pods of a profile that wait for a plugin."""

    profile: str
    plugin: str
    pods: int


class Queues(msgspec.Struct, frozen=True):
    """The numbers of waiting pods by queue and by plugin, and the first of the `total` requested pods."""

    counts: Mapping[str, int]
    held: tuple[HeldCount, ...]
    total: int
    pods: tuple[PodView, ...]


class PodMatch(msgspec.Struct, frozen=True):
    """A pod found by name: the queue in which it waits, or its node."""

    pod: str
    queue: str
    node: str


def list_queues(
    view: EngineView[E], *, queue: str = "", held_by: PluginKey | None = None, most: int = MAX_SHOWN
) -> Queues:
    """List the first pods of one queue, or of all queues in turn, or those that a plugin (profile, name) holds back."""
    counts, held = view.count_by_queue(), view.count_by_plugin()
    if held_by is not None:
        selected, total = view.pods_held_by(held_by), held.get(held_by, 0)
    elif queue:
        selected, total = view.pods_in(queue), counts.get(queue, 0)
    else:
        selected, total = itertools.chain.from_iterable(map(view.pods_in, counts)), sum(counts.values())
    return Queues(
        counts,
        tuple(
            HeldCount(*holder, count) for holder, count in sorted(held.items(), key=lambda item: (-item[1], item[0]))
        ),
        total,
        tuple(itertools.islice(selected, most)),
    )


def find_pods(view: EngineView[E], text: str) -> Generator[None, None, tuple[PodMatch, ...]]:
    """Find pods that have the text in their `namespace/name`, those of this scheduler first; yields now and then."""
    cluster = view.engine.cluster
    matches: dict[str, PodMatch] = {}  # by uid, as a pod that is assumed on a node is among the pending ones too
    every: tuple[Mapping[str, PodInfo], ...] = (view.engine.pending, cluster.pods)
    for pods in every:
        for number, pod in enumerate(list(pods.values()), 1):
            if text in pod.key:
                known = cluster.pods.get(pod.uid)
                matches[pod.uid] = PodMatch(pod.key, view.queue_of(pod), known.node_name if known is not None else "")
                if len(matches) == MAX_MATCHES:
                    return tuple(matches.values())
            if number % _PODS_PER_SLICE == 0:
                yield
    return tuple(matches.values())
