"""Kind `selector`: label selectors, node selectors, and which tolerations put up with which taints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from kframework.objects import (
    ApiStruct,
    LabelSelector,
    Node,
    NodeSelector,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from kframework.objects.label_selectors import SelectorError, exact, label_selector
from kframework.objects.node_selectors import (
    NodeSelectorTerms,
    node_affinity,
    preferred_node_score,
    required_node_affinity,
)
from kframework.objects.taints import first_untolerated, tolerates
from kframework.testing.conformance.facts import Fact, beside

Answer = dict[str, object]
Operation = Literal[
    "labelSelector",
    "nodeSelector",
    "podRequiredNodeAffinity",
    "preferredNodeAffinity",
    "toleration",
    "untoleratedTaint",
]


class Given(ApiStruct, frozen=True, kw_only=True):
    """Which function is asked (`op`), and what."""

    op: Operation
    selector: LabelSelector | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: NodeSelector = NodeSelector()
    node: Node = Node()
    pod: Pod = Pod()
    terms: tuple[PreferredSchedulingTerm, ...] = ()
    toleration: Toleration = Toleration()
    taint: Taint = Taint()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    effects: tuple[str, ...] = ()


def compare(given: Given, recorded: Answer) -> Iterator[Fact]:
    """Compare what a selector or toleration says; of errors only the fact counts."""
    try:
        got = _OPERATIONS[given.op](given)
    except SelectorError as error:
        got = {"error": str(error)}
    for key in ("error", "parseError", "matchError"):
        if key in recorded and key in got:
            got[key] = recorded[key]
    yield from beside(recorded, got)


def _label_selector(given: Given) -> Answer:
    selector = label_selector(given.selector)
    return {"matches": selector.matches(given.labels), "string": str(selector), "empty": selector.empty}


def _node_selector(given: Given) -> Answer:
    selector = NodeSelectorTerms(given.node_selector.node_selector_terms)
    matches = selector.matches(given.node.metadata.labels, given.node.metadata.name)
    answer: Answer = {"matches": matches}
    if selector.errors:
        answer["parseError"] = str(selector.errors[0])
        if not matches:
            answer["matchError"] = str(selector.errors[0])
    return answer


def _pod_required_node_affinity(given: Given) -> Answer:
    required = required_node_affinity(given.pod.spec)
    labels, name = given.node.metadata.labels, given.node.metadata.name
    matches = required is None or required(labels, name)
    answer: Answer = {"matches": matches}
    # nodeSelector is asked first: where it does not match, the terms are not.
    if not matches and exact(given.pod.spec.node_selector).matches(labels) and (error := _term_error(given.pod.spec)):
        answer["matchError"] = error
    return answer


def _term_error(spec: PodSpec) -> str:
    affinity = node_affinity(spec)
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    errors = NodeSelectorTerms(required.node_selector_terms).errors if required else ()
    return str(errors[0]) if errors else ""


def _preferred_node_affinity(given: Given) -> Answer:
    score = preferred_node_score(given.terms)
    return {"score": score(given.node.metadata.labels, given.node.metadata.name)}


def _toleration(given: Given) -> Answer:
    return {"tolerates": tolerates(given.toleration, given.taint)}


def _untolerated_taint(given: Given) -> Answer:
    taint = first_untolerated(given.taints, given.tolerations, given.effects)
    return {"untolerated": taint is not None} | ({"taint": msgspec.to_builtins(taint)} if taint is not None else {})


_OPERATIONS: Mapping[Operation, Callable[[Given], Answer]] = {
    "labelSelector": _label_selector,
    "nodeSelector": _node_selector,
    "podRequiredNodeAffinity": _pod_required_node_affinity,
    "preferredNodeAffinity": _preferred_node_affinity,
    "toleration": _toleration,
    "untoleratedTaint": _untolerated_taint,
}
