"""What a plugin is checked with, and what the checks must come by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from kframework import Code
from kframework.objects import ApiObject, Node, Pod
from kframework.values.feature_gates import MINORS

__all__ = ["UU", "Case", "U", "World"]

U, UU = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is added to random clusters, and how the plugin is configured there.

    `nodes`, `pods` and `objects` are what the plugin is about and what random clusters lack. `other_plugins` are
    enabled with it where wake-ups are checked. Its `sources` hold these values. The clusters are of these `minors` of
    Kubernetes in turn, with these `feature_gates`; a gate that only one minor has needs a world of that minor alone.
    """

    args: Mapping[str, Any] = msgspec.field(default_factory=dict)
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    objects: Sequence[ApiObject] = ()
    other_plugins: Sequence[str] = ()
    sources: Mapping[str, Mapping[str, object]] = msgspec.field(default_factory=dict)
    minors: Sequence[str] = MINORS
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """How one plugin is checked.

    Every reason and code that it can give is listed, and some of its raw scores. To meet them in its `worlds` takes so
    many `times` the usual number of clusters. `unasked` hooks are those of a plugin that is always skipped there;
    `unreached` are lines, each with its function, of faults that would end the check, and the like.

    In the `waking` worlds each of its registrations is needed: the same ones by default.
    """

    worlds: Sequence[World] = (World(),)
    times: int = 1
    reasons: AbstractSet[str] = frozenset()
    codes: AbstractSet[Code] = frozenset({UU})
    scores: AbstractSet[int] = frozenset()
    unasked: AbstractSet[str] = frozenset()
    unreached: AbstractSet[str] = frozenset()
    waking: Sequence[World] = ()
