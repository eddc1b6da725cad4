"""What claims lack on a node, in words."""

from __future__ import annotations

import pytest

from kframework.plugins.dynamic_resources.shortfalls import format_shortfalls
from tests.support.device_objects import DRIVER, resource_slice
from tests.support.missing_devices import (
    MODEL,
    WORN,
    asking,
    claim,
    give_devices,
    gpu,
    request,
    shortfalls,
    slice_of_n1,
)

ONE_OF = {"name": "r", "firstAvailable": [{"name": "two", **asking(2)}, {"name": "three", **asking(3)}]}


def test_request_is_a_line_and_each_kind_of_loss_another() -> None:
    devices = [*(gpu(f"a{n}") for n in range(3)), gpu("b", "b"), gpu("worn", taints=[WORN]), gpu("left")]
    in_use = [give_devices("a0", "a1", by="x"), give_devices("a2", by="y")]
    asked = claim(request("gpu", 4, selectors=[f"{MODEL} == 'a'"]))
    assert list(format_shortfalls(shortfalls([slice_of_n1(*devices)], [asked], in_use))) == [
        "gpu of claim default/c requests 4: 1 of 6 devices available",
        f"  1 not selected by {MODEL} == 'a'",
        "  3 in use by default/x (2), default/y (1)",
        "  1 tainted worn:NoSchedule",
    ]


def test_many_who_have_devices_and_many_clauses_are_counted() -> None:
    devices, names = [gpu(f"d{n}") for n in range(6)], [f"x{n}" for n in range(6)]
    in_use = [give_devices(f"d{n}", by=name) for n, name in enumerate(names)]
    (_, line) = format_shortfalls(shortfalls([slice_of_n1(*devices)], [claim(request())], in_use))
    assert line == "  6 in use by default/x0 (1), default/x1 (1), default/x2 (1), default/x3 (1) and 2 more"
    tainted = [gpu(f"d{n}", taints=[{"key": f"k{n}", "effect": "NoExecute"}]) for n in range(6)]
    (_, *lines) = format_shortfalls(shortfalls([slice_of_n1(*tainted)], [claim(request())]))
    assert lines == [*(f"  1 tainted k{n}:NoExecute" for n in range(4)), "  2 tainted others"]


def test_each_way_to_satisfy_a_request_is_told() -> None:
    lines = list(format_shortfalls(shortfalls([slice_of_n1(gpu("a"))], [claim(ONE_OF)])))
    assert lines == [
        "r/two of claim default/c requests 2: 1 of 1 device available",
        "r/three of claim default/c requests 3: 1 of 1 device available",
    ]


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([gpu("a")], "all of 1: 1 of 1 device available"),
        ([], "all of 1: none available"),
    ],
)
def test_all_devices_may_be_wanted(devices: list[dict[str, object]], said: str) -> None:
    (line, *_) = format_shortfalls(shortfalls([slice_of_n1(*devices)], [claim(request(count=0, allocationMode="All"))]))
    assert line == f"r of claim default/c requests {said}"


def test_requests_that_stand_in_each_others_way_are_named() -> None:
    *_, last = format_shortfalls(shortfalls([slice_of_n1(gpu("a"))], [claim(request("one"), request("two"))]))
    why = "request two of claim default/c does not fit after the earlier ones"
    assert last == f"each request can be satisfied alone, but not all together: {why}"


def test_driver_that_is_still_publishing_is_told_of() -> None:
    pool = {"name": "half", "generation": 1, "resourceSliceCount": 2}
    half = resource_slice("half", [gpu("b")], nodeName="n1", pool=pool)
    _, line = format_shortfalls(shortfalls([half], [claim(request())]))
    assert line == f"pool {DRIVER}/half: incomplete, its driver is still publishing it"
