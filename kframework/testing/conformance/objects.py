"""Kinds `quantity`, `resources`, `selector` and `cel`: calculations on single objects, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from kframework.cel.errors import CelError
from kframework.cel.types import ANY, DYN
from kframework.objects import (
    ApiStruct,
    LabelSelector,
    Node,
    NodeSelector,
    Pod,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from kframework.objects.label_selectors import SelectorError, exact_selector, label_selector
from kframework.objects.node_selectors import (
    NodeSelectorTerms,
    preferred_node_score,
    required_node_affinity,
    required_node_selector,
)
from kframework.objects.quantity import Quantity, QuantityError
from kframework.objects.requests import is_scalar
from kframework.objects.taints import first_untolerated, tolerates
from kframework.plugins.dynamic_resources.device_selectors import CelDevice, compile_selector
from kframework.state.cluster import ClusterState
from kframework.state.pods import PodInfo
from kframework.testing.conformance.cases import Fact, compare_keys
from kframework.values.feature_gates import MINORS, FeatureGates

AnswerFields = dict[str, object]
SelectorFunction = Literal[
    "labelSelector",
    "nodeSelector",
    "podRequiredNodeAffinity",
    "preferredNodeAffinity",
    "toleration",
    "untoleratedTaint",
]


class SelectorQuestion(ApiStruct, frozen=True, kw_only=True):
    """The function to call (`op`), and its arguments."""

    op: SelectorFunction
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


def compare_selector(question: SelectorQuestion, recorded: AnswerFields) -> Iterator[Fact]:
    """Compare the result of a selector or toleration; of errors only the fact counts."""
    try:
        got = _evaluate_selector(question)
    except SelectorError as error:
        got = {"error": str(error)}
    for key in ("error", "parseError", "matchError"):
        if key in recorded and key in got:
            got[key] = recorded[key]
    yield from compare_keys(recorded, got)


def _evaluate_selector(question: SelectorQuestion) -> AnswerFields:
    labels, name = question.node.metadata.labels, question.node.metadata.name
    match question.op:
        case "labelSelector":
            selector = label_selector(question.selector)
            return {"matches": selector.matches(question.labels), "string": str(selector), "empty": selector.empty}
        case "nodeSelector":
            terms = NodeSelectorTerms(question.node_selector.node_selector_terms)
            answer: AnswerFields = {"matches": terms.matches(labels, name)}
            for error in terms.errors[:1]:
                answer["parseError"] = str(error)
                if not answer["matches"]:
                    answer["matchError"] = str(error)
            return answer
        case "podRequiredNodeAffinity":
            predicate, required = required_node_affinity(question.pod.spec), required_node_selector(question.pod.spec)
            answer = {"matches": predicate is None or predicate(labels, name)}
            # nodeSelector goes first: if it does not match, the terms are not evaluated.
            if not answer["matches"] and required and exact_selector(question.pod.spec.node_selector).matches(labels):
                for error in NodeSelectorTerms(required.node_selector_terms).errors[:1]:
                    answer["matchError"] = str(error)
            return answer
        case "preferredNodeAffinity":
            return {"score": preferred_node_score(question.terms)(labels, name)}
        case "toleration":
            return {"tolerates": tolerates(question.toleration, question.taint)}
        case "untoleratedTaint":
            taint = first_untolerated(question.taints, question.tolerations, question.effects)
            return (
                {"untolerated": False} if taint is None else {"untolerated": True, "taint": msgspec.to_builtins(taint)}
            )


# -- quantities ------------------------------------------------------------------------------------------------------


class QuantityQuestion(ApiStruct, frozen=True, kw_only=True):
    """One quantity (`op` is `quantity`) or two (`quantityOp`), as text."""

    op: Literal["quantity", "quantityOp"]
    value: str = ""
    a: str = ""
    b: str = ""


def compare_quantity(question: QuantityQuestion, recorded: dict[str, object]) -> Iterator[Fact]:
    """Compare the value of a quantity, or of an operation on two; of an error only the fact counts."""
    got: dict[str, object]
    try:
        if question.op == "quantity":
            quantity = Quantity.parse(question.value)
            got = {
                "canonical": str(quantity),
                "json": str(quantity),
                "format": quantity.format,
                "sign": quantity.sign,
                "value": quantity.value(),
                "milliValue": quantity.milli_value(),
            }
        else:
            a, b = Quantity.parse(question.a), Quantity.parse(question.b)
            got = {"cmp": a.cmp(b), "sum": str(a.add(b)), "difference": str(a.sub(b))}
    except QuantityError as error:
        got = {"error": recorded.get("error", str(error))}
    # Amounts that do not fit in 64 bits are not recorded.
    large = {name for name, value in got.items() if isinstance(value, int) and abs(value) >= 2**63}
    yield from compare_keys(recorded, {name: got[name] for name in got if name in recorded or name not in large})


# -- resources -------------------------------------------------------------------------------------------------------


class ResourcesQuestion(ApiStruct, frozen=True, kw_only=True):
    """A pod, and the resources that the two scoring plugins are configured with."""

    pod: Pod
    resources: tuple[str, ...] = ()
    emulated_version: str = MINORS[0]


def compare_resources(question: ResourcesQuestion, recorded: dict[str, object]) -> Iterator[Fact]:
    """Compare the requests that the state keeps of a pod."""
    pod = PodInfo(question.pod, ClusterState(FeatureGates(question.emulated_version)).interner)
    fit, on_node = dict(pod.template.fit), dict(pod.on_node)
    cpu, memory = pod.non_zero
    balanced = _amounts_of(question.resources, on_node)
    got: dict[str, object] = {
        "fit": _amounts_by_field(fit),
        "onNode": _amounts_by_field(on_node),
        "onNodeNonZero": {"cpuMilli": cpu, "memory": memory},
        "scoringNodeResourcesFit": _amounts_of(question.resources, pod.template.scoring),
        "scoringNodeResourcesBalancedAllocation": balanced if any(balanced.values()) else "Skip",
    }
    yield from compare_keys(recorded, got)


def _amounts_by_field(amounts: Mapping[str, int]) -> dict[str, object]:
    native = {"cpuMilli": "cpu", "memory": "memory", "ephemeralStorage": "ephemeral-storage"}
    fields: dict[str, object] = {field: amounts.get(name, 0) for field, name in native.items()}
    scalar = {name: amount for name, amount in amounts.items() if is_scalar(name)}
    return fields | ({"scalar": scalar} if scalar else {})


def _amounts_of(resources: tuple[str, ...], amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amounts.get(name, 0) for name in resources}


class RecordedCapacity(ApiStruct, frozen=True, kw_only=True):
    """An amount of something that a device has."""

    value: str


class RecordedDevice(ApiStruct, frozen=True, kw_only=True):
    """A device as in a slice, and its driver."""

    driver: str
    attributes: dict[str, dict[str, object]] = msgspec.field(default_factory=dict)
    capacity: dict[str, RecordedCapacity] = msgspec.field(default_factory=dict)
    allow_multiple_allocations: bool = False


class DeviceSelectorQuestion(ApiStruct, frozen=True, kw_only=True):
    """The expression and the device."""

    expression: str
    emulated_version: str = MINORS[0]
    device: RecordedDevice


def compare_device_selector(question: DeviceSelectorQuestion, recorded: dict[str, object]) -> Iterator[Fact]:
    """Compare whether it compiles and matches; of an error only the fact counts, and the cost is for information."""
    got = _evaluate_device_selector(question)
    if "error" in got and "error" in recorded:
        got["error"] = recorded["error"]
    yield from compare_keys({name: value for name, value in recorded.items() if name != "cost"}, got)


def device_of(recorded: RecordedDevice) -> CelDevice:
    """Return a recorded device as selectors see it."""
    capacity = {name: amount.value for name, amount in recorded.capacity.items()}
    return CelDevice(recorded.driver, recorded.attributes, capacity, recorded.allow_multiple_allocations)


def _evaluate_device_selector(question: DeviceSelectorQuestion) -> dict[str, object]:
    is_1_36 = FeatureGates(question.emulated_version).is_1_36
    try:
        selector = compile_selector(question.expression, ANY if is_1_36 else DYN)
    except CelError as error:
        return {"compile": "error", "error": str(error)}
    device = device_of(question.device)
    if is_1_36 and device.list_attribute:
        return {"compile": "ok", "error": f"attribute {device.list_attribute}: unsupported attribute value"}
    try:
        return {"compile": "ok", "result": selector.matches(device)}
    except CelError as error:
        return {"compile": "ok", "error": str(error)}
