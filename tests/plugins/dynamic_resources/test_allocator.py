"""Claims get the first devices that satisfy all of them, and none where there is no way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from kframework.plugins.dynamic_resources import allocator
from kframework.plugins.dynamic_resources.allocator import BudgetExceeded
from kframework.plugins.dynamic_resources.errors import AllocationError, InvalidPools
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolId
from tests.plugins.dynamic_resources.worlds import DRIVER, InUse, World, drawn, feasible, searched, world
from tests.support.scale import EXAMPLES

#: How many small worlds are drawn.
WORLDS = EXAMPLES * 80


def got(here: World) -> list[list[str]] | None:
    """Return `request: pool/device` of what each claim gets."""
    found = searched(here)
    if found is None:
        return None
    return [
        [f"{each.option.name}: {each.device.id.pool}/{each.device.id.device}" for each in chosen] for chosen in found
    ]


def exactly(name: str = "r", **said: object) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **said}}


def either(*ways: Mapping[str, object], name: str = "r") -> dict[str, Any]:
    said = [
        {"name": f"s{number}", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **way}
        for number, way in enumerate(ways)
    ]
    return {"name": name, "firstAvailable": said}


def gpus(*names: str, **said: object) -> dict[str, Any]:
    return {"devices": [{"name": name, **said} for name in names]}


def claims(*requests: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"requests": requests}]


def used(*names: str, pool: str = "p0") -> InUse:
    return InUse([DeviceId(DRIVER, pool, name) for name in names])


def model(name: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": name}}]


def of(memory: str, name: str = "r", capacity: str = "memory") -> dict[str, Any]:
    """Ask for so much memory of a device."""
    return exactly(name, capacity={"requests": {capacity: memory}})


def parts(*names: str, **said: object) -> dict[str, Any]:
    """Devices of which each takes two of four slices."""
    return {**gpus(*names, consumesCounters=SLICE, **said), "sharedCounters": WHOLE}


ALL: dict[str, Any] = {"allocationMode": "All", "count": 0}
TAINTED = {"taints": [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
SLICE = [{"counterSet": "whole", "counters": {"slices": {"value": "2"}}}]
WHOLE = [{"name": "whole", "counters": {"slices": {"value": "4"}}}]


@pytest.mark.parametrize(
    ("slices", "asked", "in_use", "expected"),
    [
        ([gpus("a", "b")], claims(exactly()), used(), [["r: p0/a"]]),
        ([gpus("a", "b")], claims(exactly()), used("a"), [["r: p0/b"]]),
        ([gpus("a", "b")], claims(exactly(count=2)), used("a"), None),
        ([gpus("a"), gpus("b")], claims(exactly(count=2)), used(), [["r: p0/a", "r: p1/b"]]),
        ([gpus("a", "b")], [*claims(exactly()), *claims(exactly())], used(), [["r: p0/a"], ["r: p0/b"]]),
        ([gpus("a")], [*claims(exactly()), *claims(exactly())], used(), None),
        # all devices, or none
        ([gpus("a", "b")], claims(exactly(**ALL)), used(), [["r: p0/a", "r: p0/b"]]),
        ([gpus("a", "b")], claims(exactly(**ALL)), used("b"), None),
        ([gpus()], claims(exactly(**ALL)), used(), None),
        # whoever administers devices asks only about its own claim
        ([gpus("a")], claims(exactly(adminAccess=True)), used("a"), [["r: p0/a"]]),
        ([gpus("a")], claims(exactly(adminAccess=True, count=2)), used(), None),
        # the first way that leads to an end
        ([gpus("a", "b")], claims(either({"count": 3}, {"count": 2}, {})), used(), [["r/s1: p0/a", "r/s1: p0/b"]]),
        ([gpus("a", "b")], claims(either({"count": 2}, {}), exactly("q")), used(), [["r/s1: p0/a", "q: p0/b"]]),
        # taints
        ([gpus("a", **TAINTED)], claims(exactly()), used(), None),
        ([gpus("a", **TAINTED)], claims(exactly(tolerations=[{"key": "broken", "value": "no"}])), used(), None),
        ([gpus("a", **TAINTED)], claims(exactly(tolerations=[{"operator": "Exists"}])), used(), [["r: p0/a"]]),
        ([gpus("a", taints=[{"key": "x", "effect": "None"}])], claims(exactly()), used(), [["r: p0/a"]]),
        # capacity
        ([gpus("a")], claims(exactly(capacity={"requests": {"memory": "1"}})), used(), None),
        ([gpus("a", **SHARED)], claims(of("2", "x"), of("2", "y")), used(), [["x: p0/a", "y: p0/a"]]),
        ([gpus("a", **SHARED)], claims(of("3", "x"), of("3", "y")), used(), None),
        ([gpus("a", **SHARED)], claims(exactly()), InUse(memory={DeviceId(DRIVER, "p0", "a"): 1}), None),
        # capacity by the name with the driver's domain, as well as without it
        ([gpus("a", **SHARED)], claims(of("3", capacity=f"{DRIVER}/memory")), used(), [["r: p0/a"]]),
        ([gpus("a", **SHARED)], claims(of("5", capacity=f"{DRIVER}/memory")), used(), None),
        ([gpus("a", **SHARED)], claims(of("3", "x", f"{DRIVER}/memory"), of("3", "y")), used(), None),
        ([gpus("a", **SHARED)], claims(of("3", capacity="other.example.com/memory")), used(), None),
        ([gpus("a", capacity={f"{DRIVER}/memory": {"value": "4"}})], claims(of("3")), used(), [["r: p0/a"]]),
        # counters
        ([parts("a", "b", "c")], claims(exactly(count=2)), used(), [["r: p0/a", "r: p0/b"]]),
        ([parts("a", "b", "c")], claims(exactly(count=2)), used("a"), None),
        ([parts("a", "b", "c")], claims(exactly()), used("a"), [["r: p0/b"]]),
        ([parts("a", "b", "c")], claims(exactly()), used("a", "b"), None),
        # a shared device uses its counters once, whether it has capacities or not
        (
            [parts("a", "b", allowMultipleAllocations=True)],
            claims(exactly()),
            InUse(memory={DeviceId(DRIVER, "p0", name): 0 for name in "ab"}),
            [["r: p0/a"]],
        ),
        (
            [parts("a", **SHARED)],
            claims(of("1", "x"), of("1", "y"), of("1", "z")),
            used(),
            [["x: p0/a", "y: p0/a", "z: p0/a"]],
        ),
    ],
)
def test_who_gets_what(
    slices: Sequence[Mapping[str, object]],
    asked: Sequence[Mapping[str, object]],
    in_use: InUse,
    expected: list[list[str]] | None,
) -> None:
    assert got(world(slices, asked, in_use)) == expected


def with_attributes(**devices: Mapping[str, object]) -> dict[str, Any]:
    return {"devices": [{"name": name, "attributes": said} for name, said in devices.items()]}


def test_devices_are_selected() -> None:
    slices = [with_attributes(a={"model": {"string": "x"}}, b={"model": {"string": "y"}})]
    assert got(world(slices, claims(exactly(selectors=model("y"))), used())) == [["r: p0/b"]]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"matchAttribute": f"{DRIVER}/numa"}, [["x: p0/a", "y: p0/c"]]),
        ({"distinctAttribute": f"{DRIVER}/numa"}, [["x: p0/a", "y: p0/b"]]),
        ({"matchAttribute": f"{DRIVER}/numa", "requests": ["x"]}, [["x: p0/a", "y: p0/b"]]),
    ],
)
def test_devices_have_in_common_what_they_must(constraint: Mapping[str, object], expected: list[list[str]]) -> None:
    slices = [with_attributes(**{name: {"numa": {"int": numa}} for name, numa in (("a", 0), ("b", 1), ("c", 0))})]
    asked = [{"requests": [exactly("x"), exactly("y")], "constraints": [constraint]}]
    assert got(world(slices, asked, used())) == expected


@pytest.mark.parametrize(
    ("slices", "asked", "expected"),
    [
        pytest.param(
            [parts("a", allowMultipleAllocations=True), parts("b", "c")],
            claims(exactly("x", count=4), exactly("y")),
            None,
            id="#139040: a shared device is given once to a request",
        ),
        pytest.param(
            [parts("a", "b")], claims(exactly(**ALL)), [["r: p0/a", "r: p0/b"]], id="#138885: all devices with counters"
        ),
        pytest.param(
            [with_attributes(a={"numa": {"int": 0}}, b={"numa": {"int": 1}}, c={"numa": {"int": 0}})],
            [{"requests": [exactly(count=3)], "constraints": [{"distinctAttribute": f"{DRIVER}/numa"}]}],
            None,
            id="#140600: distinctAttribute compares all devices of a request",
        ),
        pytest.param(
            [parts(*"ab", **TAINTED), parts(*"cd")],
            claims(exactly(count=2)),
            [["r: p1/c", "r: p1/d"]],
            id="#140431: a device that a taint refuses keeps no counters",
        ),
    ],
)
def test_faults_that_1_37_corrects_are_not_repeated(
    slices: Sequence[Mapping[str, object]], asked: Sequence[Mapping[str, object]], expected: list[list[str]] | None
) -> None:
    assert got(world(slices, asked, used())) == expected


@pytest.mark.parametrize(
    ("slices", "capacity", "most"),
    [
        pytest.param(
            gpus("a", "b", "c", consumesCounters=[{"counterSet": "all", "counters": {"parts": {"value": "5e18"}}}])
            | {"sharedCounters": [{"name": "all", "counters": {"parts": {"value": "1e19"}}}]},
            {},
            2,
            id="#140518: counters beyond 64 bits",
        ),
        pytest.param(
            gpus("a", "b", "c", capacity={"memory": {"value": "1e19"}}),
            {"requests": {"memory": "9999999999999999999.000000001"}},
            3,
            id="#140702: capacity beyond 64 bits, in nanos",
        ),
    ],
)
def test_large_amounts_are_the_same_in_the_next_search(
    slices: Mapping[str, object], capacity: Mapping[str, object], most: int
) -> None:
    """kube-scheduler of 1.36 changed them in its cache while it calculated."""
    enough = world([slices], claims(exactly(count=most, capacity=capacity)), used())
    expected = [[f"r: p0/{name}" for name in "abc"[:most]]]
    assert [got(enough), got(enough)] == [expected, expected]
    assert got(world([slices], claims(exactly(count=most + 1, capacity=capacity)), used())) is None


@pytest.mark.parametrize(("count", "fits"), [(3, True), (4, False)])
def test_pools_of_one_name_have_counters_of_their_own_by_driver(count: int, fits: bool) -> None:
    """Kubernetes 1.36.2 mixes them up (#140435). There is room for one device here and for two there."""
    pool = {"name": "p", "resourceSliceCount": 1}
    slices = [
        {
            **parts("a", "b"),
            "driver": driver,
            "pool": pool,
            "sharedCounters": [{"name": "whole", "counters": {"slices": {"value": amount}}}],
        }
        for driver, amount in ((DRIVER, "2"), ("other.example.com", "4"))
    ]
    assert (got(world(slices, claims(exactly(count=count)), used())) is not None) is fits


def test_a_choice_that_leads_nowhere_is_taken_back_whole() -> None:
    """The first device of the first request is of the wrong model for the second: counters and values come back."""
    slices = [
        {
            "devices": [
                {
                    "name": name,
                    "attributes": {"numa": {"int": numa}, "model": {"string": kind}},
                    "consumesCounters": SLICE,
                }
                for name, numa, kind in (("a", 0, "x"), ("b", 1, "x"), ("c", 1, "y"))
            ],
            "sharedCounters": WHOLE,
        }
    ]
    asked = [
        {
            "requests": [exactly("x", selectors=model("x")), exactly("y", selectors=model("y"))],
            "constraints": [{"matchAttribute": f"{DRIVER}/numa"}],
        }
    ]
    assert got(world(slices, asked, used())) == [["x: p0/b", "y: p0/c"]]


def test_a_claim_that_would_have_too_many_takes_another_way() -> None:
    names = [f"d{number:02}" for number in range(40)]
    asked = claims(exactly("many", count=30), either({"count": 3}, {"count": 2}, name="few"))
    found = got(world([gpus(*names)], asked, used()))
    assert found is not None
    assert found[0][-2:] == ["few/s1: p0/d30", "few/s1: p0/d31"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (claims(exactly(count=33)), "claim n/c0: number of requested devices 33 exceeds the claim limit of 32"),
        (
            [{"requests": [exactly()], "constraints": [{"requests": ["r"]}]}],
            "claim n/c0, constraint #0: empty constraint (unsupported constraint type?)",
        ),
        (
            [{"requests": [exactly(**ALL)], "constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}],
            f"claim n/c0, request r: cannot add device {DRIVER}/p0/a because a claim constraint would not be satisfied",
        ),
    ],
)
def test_what_makes_no_sense(asked: Sequence[Mapping[str, object]], text: str) -> None:
    with pytest.raises(AllocationError) as refused:
        searched(world([gpus("a", "b")], asked, used()))
    assert str(refused.value) == text


def test_an_invalid_pool_is_only_in_the_way_of_those_who_need_it() -> None:
    here = world([gpus("a", "a"), gpus("b")], claims(exactly()), used())
    assert got(here) == [["r: p1/b"]]
    with pytest.raises(InvalidPools, match="invalid resource pools were encountered"):
        searched(world([gpus("a", "a")], claims(exactly()), used()))
    with pytest.raises(AllocationError, match=r"resource pool gpu\.example\.com/p0 is currently invalid"):
        searched(world([gpus("a", "a"), gpus("b")], claims(exactly(**ALL)), used()))


def test_an_incomplete_pool_gives_nothing() -> None:
    here = world([gpus("a")], claims(exactly()), used())
    missing = here._replace(pools=[Pool(PoolId(DRIVER, "p"), incomplete=True)])
    assert got(missing) is None
    everything = world([gpus("a")], claims(exactly(**ALL)), used())
    with pytest.raises(AllocationError, match=r"resource pool gpu\.example\.com/p is currently being updated"):
        searched(everything._replace(pools=missing.pools))


def test_a_search_that_takes_too_long_ends() -> None:
    """Twenty devices, of which ten must have one value more in common than there are."""
    names = [f"d{number}" for number in range(20)]
    slices = [with_attributes(**{name: {"numa": {"int": place % 3}} for place, name in enumerate(names)})]
    asked = [{"requests": [exactly(count=10)], "constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}]
    with pytest.raises(BudgetExceeded, match="timed out trying to allocate devices"):
        searched(world(slices, asked, used()), budget=200)
    assert searched(world(slices, asked, used())) is None


@pytest.mark.slow
def test_it_finds_a_way_exactly_where_there_is_one() -> None:
    verdicts = dict.fromkeys((True, False), 0)
    for seed in range(WORLDS):
        here = drawn(Random(seed))
        try:
            found = searched(here) is not None
        except AllocationError:
            continue  # all devices, though a constraint keeps some from being together
        assert found == feasible(here), f"the world of seed {seed}"
        verdicts[found] += 1
    assert min(verdicts.values()) > WORLDS / 10


def test_one_request_too_many_is_found_without_trying_all_orders() -> None:
    """Eight devices for nine requests of two claims: 40,320 orders of the devices, and 256 sets."""
    requests = [exactly(f"r{number}") for number in range(9)]
    here = world([gpus(*"abcdefgh")], [*claims(*requests[:4]), *claims(*requests[4:])], used())
    assert searched(here, budget=20_000) is None


def test_devices_are_the_same_if_dead_ends_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = [drawn(Random(seed)) for seed in range(WORLDS)]
    before = [outcome(here) for here in worlds]
    monkeypatch.setattr(allocator, "_SHORT_SEARCH", -1)
    assert [outcome(here) for here in worlds] == before


def outcome(here: World) -> object:
    """Return what each claim gets, or the error."""
    try:
        return got(here)
    except AllocationError as error:
        return str(error)
