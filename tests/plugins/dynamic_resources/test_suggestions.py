"""What would give a pod its devices: each suggestion is tried, and only what helps is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from kframework.explain.remedies.suggestions import SuggestHooks
from kframework.framework.suggestions import UNFIXABLE, Suggestion
from kframework.objects import (
    AllocationResult,
    ApiObject,
    DeviceClass,
    DeviceConstraint,
    DeviceTaint,
    NodeSelector,
    Pod,
    ResourceClaim,
)
from kframework.plugins.dynamic_resources.suggestions import (
    drop_clause,
    drop_constraint,
    lower_count,
    tolerate_devices,
)
from kframework.scheduler.cooperative import run_to_end
from kframework.testing import make_node, make_pod
from tests.support.device_objects import DRIVER, resource_slice
from tests.support.devices import with_claim
from tests.support.evaluations import evaluate
from tests.support.missing_devices import (
    CARD,
    MODEL,
    WORN,
    asking,
    claim,
    device_class,
    give_devices,
    gpu,
    partition,
    request,
    slice_of_n1,
)
from tests.support.remedies import make_engine, pending, remedy_lines

POD = with_claim(make_pod("pod"), claim="c")


def cluster(
    devices: Sequence[dict[str, Any]], wanted: ResourceClaim, in_use: Sequence[ResourceClaim] = ()
) -> list[ApiObject]:
    """Make one node with these devices, and a pod on it for each claim that has some."""
    users = {user.name for each in in_use for user in each.status.reserved_for}
    holders = [make_pod(name, node_name="n1") for name in sorted(users)]
    return [make_node("n1"), slice_of_n1(*devices), device_class(), wanted, *in_use, *holders]


def of(pod: Pod, *objects: ApiObject) -> set[str]:
    return set(remedy_lines(pod, *objects))


def numbered(count: int, **said: Any) -> list[dict[str, Any]]:
    return [gpu(f"d{n}", **said) for n in range(count)]


def shared(*users: str) -> ResourceClaim:
    """Let several pods have one device."""
    reserved = (user for each in users for user in give_devices("d0", by=each).status.reserved_for)
    one = give_devices("d0")
    return replace(one, status=replace(one.status, reserved_for=tuple(reserved)))


LOWER = "lower the count in request {} of claim default/c from {} to {}"
DROP = "drop the pod's claim gpu"


@pytest.mark.parametrize(
    ("devices", "asked", "in_use", "helps"),
    [
        (numbered(1), claim(request()), [give_devices("d0")], {"delete pod default/holder on n1"}),
        (
            [*numbered(1), gpu("worn", taints=[WORN])],
            claim(request(count=2)),
            [],
            {"let request r of claim default/c tolerate worn:NoSchedule", LOWER.format("r", 2, 1)},
        ),
        # As much less as needed, and no more.
        (numbered(3), claim(request(count=5)), [], {LOWER.format("r", 5, 3)}),
        # The claim is freed once both its users are gone.
        (
            numbered(1),
            claim(request()),
            [shared("x", "y")],
            {"delete pods default/x and default/y on n1"},
        ),
        (
            numbered(2),
            claim(request(count=2, selectors=[f"{MODEL} == 'a' && {MODEL} == 'b'"])),
            [],
            {f"drop {MODEL} == 'b' from request r of claim default/c"},
        ),
        (
            [gpu("a"), gpu("b", numa=1)],
            claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
            [],
            {f"drop matchAttribute {DRIVER}/numa from claim default/c", LOWER.format("r", 2, 1)},
        ),
        # One of several ways is enough.
        (
            numbered(1),
            claim({"name": "r", "firstAvailable": [{"name": "x", **asking(3)}, {"name": "y", **asking(2)}]}),
            [],
            {LOWER.format("r/x", 3, 1), LOWER.format("r/y", 2, 1)},
        ),
        # Each could be satisfied alone.
        (numbered(3), claim(request("one", 2), request("two", 2)), [], {LOWER.format("two", 2, 1)}),
        # Who is least important goes; or both, where it takes both.
        (
            [gpu("d0"), gpu("d1", taints=[WORN])],
            claim(request()),
            [give_devices("d0"), give_devices("d1", by="other")],
            {"delete pod default/holder on n1"},
        ),
        (
            [*numbered(2), gpu("worn", taints=[WORN])],
            claim(request(count=3)),
            [give_devices("d0", "d1")],
            {"let request r of claim default/c tolerate worn:NoSchedule and delete pod default/holder on n1"},
        ),
        # There are none at all.
        ([], claim(request()), [], {DROP}),
    ],
)
def test_suggestions_give_the_pod_its_devices(
    devices: list[dict[str, Any]], asked: ResourceClaim, in_use: list[ResourceClaim], helps: set[str]
) -> None:
    assert of(POD, *cluster(devices, asked, in_use)) == helps


def test_pods_that_use_the_counters_of_a_card_are_suggested() -> None:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    slices = [
        slice_of_n1(partition("whole", 40), partition("half", 20), pool=pool),
        resource_slice("counters", [], nodeName="n1", sharedCounters=CARD, pool=pool),
    ]
    holder = make_pod("holder", node_name="n1")
    found = of(POD, make_node("n1"), *slices, device_class(), claim(request()), give_devices("half"), holder)
    assert "delete pod default/holder on n1" in found


def test_claim_that_has_its_devices_elsewhere_may_be_given_up() -> None:
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    selector = msgspec.convert({"nodeSelectorTerms": [only]}, NodeSelector)
    had = give_devices("d0", by="other").status
    allocation = replace(had.allocation or AllocationResult(), node_selector=selector)
    taken = replace(claim(request()), status=replace(had, allocation=allocation))
    objects = [*cluster(numbered(1), taken), make_pod("other", node_name="n1")]
    assert of(POD, *objects) == {"delete pod default/other on n1"}


def test_extended_resources_are_asked_for_less() -> None:
    backed = msgspec.convert(
        {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}, DeviceClass
    )
    pod = make_pod("pod", requests={"example.com/gpu": 3})
    found = of(pod, make_node("n1"), slice_of_n1(*numbered(2)), backed)
    assert found == {"lower the pod's example.com/gpu request from 3 to 2"}


def test_claim_that_is_missing_may_be_dropped() -> None:
    assert of(POD, make_node("n1")) == {DROP}


def test_nodes_come_first_where_enough_devices_are_in_use() -> None:
    in_use = [give_devices("d0", "d1")]
    far, free = resource_slice("n2", [gpu("x")], nodeName="n2"), resource_slice("n3", numbered(3), nodeName="n3")
    asked = claim(request(count=2, selectors=[f"{MODEL} == 'b'"]))
    engine = make_engine([*cluster(numbered(2), asked, in_use), make_node("n2"), make_node("n3"), far, free])
    evaluation = run_to_end(evaluate(engine, pending(engine, POD)))
    rows = np.array([engine.cluster.nodes.row(name) for name in ("n1", "n2", "n3")])
    used, none, unused = run_to_end(
        SuggestHooks(evaluation.profile).estimate(evaluation, "DynamicResources", rows)
    ).tolist()
    assert 0 < used <= 1
    assert UNFIXABLE < unused < none


ON = "default/c"
TAINT = DeviceTaint(key="worn", value="very", effect="NoSchedule")
ASKED = {"deviceClassName": "gpu", "count": 4, "selectors": [{"cel": {"expression": "a && b"}}]}
MATCH, DISTINCT = {"matchAttribute": "d/numa"}, {"distinctAttribute": "d/model"}


def devices(one: dict[str, Any] | None = None, y: dict[str, Any] | None = None) -> dict[str, Any]:
    either = [{"name": "x", **ASKED}, {"name": "y", **ASKED, **(y or {})}]
    requests = [{"name": "one", "exactly": {**ASKED, **(one or {})}}, {"name": "either", "firstAvailable": either}]
    return {"requests": requests, "constraints": [MATCH, DISTINCT]}


def claim_of(spec: dict[str, Any]) -> ResourceClaim:
    return msgspec.convert({"metadata": {"name": "c"}, "spec": {"devices": spec}}, ResourceClaim)


@pytest.mark.parametrize(
    ("change", "text", "arguments", "after"),
    [
        (
            tolerate_devices(ON, "either/y", TAINT),
            "let request either/y of claim default/c tolerate worn=very:NoSchedule",
            {"kind": "tolerateDevices", "request": "either/y", "taint": msgspec.to_builtins(TAINT)},
            devices(y={"tolerations": [{"key": "worn", "operator": "Equal", "value": "very", "effect": "NoSchedule"}]}),
        ),
        (
            tolerate_devices(ON, "one", DeviceTaint(key="worn", effect="NoExecute")),
            "let request one of claim default/c tolerate worn:NoExecute",
            {"kind": "tolerateDevices", "request": "one", "taint": {"key": "worn", "effect": "NoExecute"}},
            devices({"tolerations": [{"key": "worn", "operator": "Exists", "effect": "NoExecute"}]}),
        ),
        (
            lower_count(ON, "one", 3, 1),
            "lower the count in request one of claim default/c from 4 to 1",
            {"kind": "lowerCount", "request": "one", "amount": 3, "to": 1},
            devices({"count": 1}),
        ),
        (
            drop_clause(ON, "one", "a && b", "a"),
            "drop a from request one of claim default/c",
            {"kind": "dropClause", "request": "one", "clause": "a", "selector": "a && b", "rest": "b"},
            devices({"selectors": [{"cel": {"expression": "b"}}]}),
        ),
        (
            drop_constraint(ON, msgspec.convert(MATCH, DeviceConstraint)),
            "drop matchAttribute d/numa from claim default/c",
            {"kind": "dropConstraint", "constraint": MATCH},
            {**devices(), "constraints": [DISTINCT]},
        ),
        (
            drop_constraint(ON, msgspec.convert(DISTINCT, DeviceConstraint)),
            "drop distinctAttribute d/model from claim default/c",
            {"kind": "dropConstraint", "constraint": DISTINCT},
            {**devices(), "constraints": [MATCH]},
        ),
    ],
)
def test_claim_is_changed_as_the_suggestion_says(
    change: Suggestion, text: str, arguments: dict[str, object], after: dict[str, Any]
) -> None:
    assert change.text == text
    assert change.to_dict() == {"claim": ON, **arguments}
    assert change.patch(claim_of(devices())) == claim_of(after)


def test_selector_goes_with_its_last_clause() -> None:
    single = devices(y={"selectors": [{"cel": {"expression": "a"}}, {"cel": {"expression": "b"}}]})
    dropped = drop_clause(ON, "either/y", "a", "a")
    assert dropped.to_dict()["rest"] == ""
    assert dropped.patch(claim_of(single)) == claim_of(devices(y={"selectors": [{"cel": {"expression": "b"}}]}))


def test_count_is_lowered_by_another_amount() -> None:
    assert lower_count(ON, "one", 3, 1).with_amount(1) == lower_count(ON, "one", 1, 3)
