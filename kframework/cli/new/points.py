"""The extension points that a new plugin may show, and what each comes with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """An extension point of which the templates have an example.

    `purpose` is what the example does; one that only helps another has none. `hooks` come along, whatever its form;
    `needs` is another point without which it makes no sense.
    """

    purpose: str = ""
    hooks: tuple[str, ...] = ()
    needs: str = ""


#: By name, in the order in which a pod meets them.
POINTS: Mapping[str, Point] = {
    "pre_enqueue": Point("hold pods that have a label", ("events_to_register",)),
    "queue_sort": Point("put urgent pods first"),
    "pre_filter": Point("limit the pods of a group", ("add_pod", "remove_pod"), needs="filter"),
    "filter": Point("limit the pods of a node", ("filter_nodes", "filter_status", "sign", "events_to_register")),
    "explain": Point(needs="filter"),
    "suggest": Point(hooks=("suggest_nodes",), needs="filter"),
    "post_filter": Point("keep nodes for important pods"),
    "pre_score": Point(needs="score"),
    "score": Point("spread pods", ("score_nodes", "normalize_score", "sign")),
    "reserve": Point("limit how many pods are bound at once", ("unreserve", "events_to_register")),
    "permit": Point("let pods wait for their binding"),
    "pre_bind": Point("keep off nodes that are drained", ("pre_bind_pre_flight",)),
    "bind": Point("bind groups"),
    "post_bind": Point("record where pods went"),
}

#: What a new plugin shows unless somebody says otherwise.
DEFAULT = ("filter", "score")

#: Options, and the points that have another form by each.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "columnar": ("filter", "score"),
    "async": ("permit", "pre_bind", "bind", "post_bind"),
}

#: A sentence names so many purposes before the last.
_TOLD = 2


def with_needs(points: Iterable[str]) -> frozenset[str]:
    """Return the points with those that they need."""
    chosen = frozenset(points)
    return chosen | {POINTS[point].needs for point in chosen if POINTS[point].needs}


def forms(points: Iterable[str], options: Set[str]) -> frozenset[str]:
    """Return the words by which templates know the points, such as `filter`, and `filter_columnar` by that option."""
    others = {point: f"{point}_{option}" for option in options for point in OPTIONS[option]}
    return frozenset(others.get(point, point) for point in points)


def summary(points: Set[str]) -> str:
    """Say what the examples of these points do, in one sentence."""
    *first, last = (point.purpose for name, point in POINTS.items() if name in points and point.purpose)
    if len(first) > _TOLD:
        return f"show what {len(points)} extension points are for"
    return f"{', '.join(first)} and {last}" if first else last
