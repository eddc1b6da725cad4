"""The text of `fit`: the verdict first, tables of a bounded length, and what to do."""

from __future__ import annotations

import pytest

from kframework.capacity.fit_result import Copies, DisplacedPod, FitResult, Obstacle, PodPlace
from kframework.capacity.text import format_fit
from kframework.explain.remedies.remedies import Remedy

FITTING = FitResult(
    workload=("job/sort",),
    fits=True,
    pods=tuple(PodPlace(f"default/sort-{number}", "a") for number in range(25)),
)


def test_long_tables_are_cut_unless_they_are_wide() -> None:
    text = format_fit(FITTING)
    assert text.startswith("job/sort fits: 25 of 25 pods found a node.\n\n  POD              NODE\n")
    assert "default/sort-19" in text and "default/sort-20" not in text
    assert text.endswith("  ... and 5 more; -o wide shows them\n")
    assert "default/sort-24" in format_fit(FITTING, wide=True)


def test_evicted_pods_are_followed() -> None:
    went = DisplacedPod(pod="default/low", evicted_for="default/high", was_on="a", node="b")
    waits = DisplacedPod(pod="default/low-too", evicted_for="default/high", was_on="a", node="", message="no room")
    result = FitResult(workload=("pod/high",), fits=True, pods=(PodPlace("default/high", "a"),), evicted=(went, waits))
    assert format_fit(result).splitlines()[5:] == [
        "EVICTED, and where these pods go if they are recreated:",
        "  POD              FROM  FOR           TO      MESSAGE",
        "  default/low      a     default/high  b",
        "  default/low-too  a     default/high  <none>  no room",
    ]


def test_obstacle_ends_with_what_would_help() -> None:
    obstacle = Obstacle(pod="default/p", message="0/1 nodes are available.", remedies=(Remedy("free 1 cpu on a", ()),))
    result = FitResult(workload=("pod/p",), fits=False, pods=(PodPlace("default/p", ""),), obstacle=obstacle)
    assert format_fit(result).endswith(
        "WHY NOT default/p:\n  0/1 nodes are available.\nWHAT WOULD HELP, each by itself:\n  - free 1 cpu on a\n"
    )


@pytest.mark.parametrize(("fits", "verb"), [(True, "fit"), (False, "do not fit")])
def test_headline_of_several_objects_is_plural(fits: bool, verb: str) -> None:
    place = PodPlace("default/p", "a" if fits else "")
    result = FitResult(workload=("pod/p", "pod/q"), fits=fits, pods=(place,))
    assert format_fit(result).startswith(f"pod/p, pod/q {verb}: ")


def test_copies_that_all_fit_need_no_reason() -> None:
    result = FitResult(
        workload=("pod/p",), fits=True, pods=(PodPlace("default/p", "a"),), copies=Copies(fit=3, tried=3)
    )
    assert format_fit(result).endswith("COPIES: all 3 that were tried fit, this one included.\n")


def test_a_workload_without_pods_says_so() -> None:
    assert format_fit(FitResult(workload=("deployment/web",), fits=False, pods=())) == (
        "deployment/web: there are no pods to schedule.\n"
    )
