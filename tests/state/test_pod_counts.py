"""Classes of pods with the same labels, and what selections choose of them; counts kept current: test_counters.py."""

from __future__ import annotations

import msgspec
import pytest

from kframework.objects.label_selectors import EVERYTHING, exact_selector
from kframework.state.columns import Column
from kframework.state.pod_counts import AllOf, LabelClass, PodCount, Selection, WeightedSelections
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.state.topology import Topology
from tests.support.objects import pod, selection

WEB = selection("default", app="web")


@pytest.mark.parametrize(
    ("namespace", "labels", "same"),
    [
        ("default", {"app": "web", "tier": "x"}, True),
        ("default", {"tier": "x", "app": "web"}, True),
        ("other", {"app": "web", "tier": "x"}, False),
        ("default", {"app": "web"}, False),
        ("default", {"app": "web", "tier": "y"}, False),
    ],
)
def test_label_class_is_a_namespace_and_labels(namespace: str, labels: dict[str, str], same: bool) -> None:
    interned = TemplateInterner()
    first = PodInfo(pod("a", labels={"app": "web", "tier": "x"}), interned)
    second = PodInfo(pod("b", namespace=namespace, labels=labels), interned)
    assert (first.label_class is second.label_class) == same
    assert (second.namespace, second.labels, second.key) == (namespace, labels, f"{namespace}/b")


def test_pods_that_are_being_deleted_are_a_class_of_their_own() -> None:
    interned, made = TemplateInterner(), pod("a", labels={"app": "web"})
    leaving = msgspec.structs.replace(made.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    stays, leaves = PodInfo(made, interned), PodInfo(msgspec.structs.replace(made, metadata=leaving), interned)
    assert stays.label_class is not leaves.label_class
    assert leaves.label_class.terminating


@pytest.mark.parametrize(
    ("selected", "namespace", "terminating", "chosen"),
    [
        (selection("default", app="web"), "default", True, True),
        (selection("default", app="db"), "default", False, False),
        (selection("default", app="web"), "other", False, False),
        (Selection(None, exact_selector({"app": "web"})), "other", False, True),
        (selection("default", app="web", terminating=False), "default", True, False),
    ],
)
def test_selection_chooses_by_namespace_labels_and_deletion(
    selected: Selection, namespace: str, terminating: bool, chosen: bool
) -> None:
    assert selected.matches(LabelClass(namespace, {"app": "web"}, terminating)) is chosen


def test_count_is_kept_per_row_and_per_domain() -> None:
    zones = Topology("zone", Column(8))
    for row, zone in enumerate("aab"):
        zones.put(row, zone)
    count = PodCount(AllOf((selection("default", app="web"),)), 8)
    count.add(0, 2)
    domains = count.domains(zones)
    count.add(1, 1)
    count.add(2, 1)
    assert [count.on_row(row) for row in range(4)] == [2, 1, 1, 0]
    assert [domains.cells[zones.code(zone)] for zone in "ab"] == [3, 1]
    assert domains.total == 4


def test_pods_weigh_together_what_the_selections_that_choose_them_weigh() -> None:
    weighed = WeightedSelections(((2, WEB), (3, Selection(None, EVERYTHING)), (5, selection("default", app="db"))))
    classes = [
        LabelClass(namespace, {"app": app}, False) for namespace in ("default", "other") for app in ("web", "db")
    ]
    assert [weighed.weight(pods) for pods in classes] == [5, 8, 3, 3]
    assert (weighed.namespaces, weighed.required_labels) == (None, ())


def test_labels_required_by_all_selections_are_common() -> None:
    twice = WeightedSelections(((2, WEB), (3, selection("other", app="web"))))
    assert (twice.namespaces, twice.required_labels) == (frozenset({"default", "other"}), (("app", "web"),))
    assert AllOf((WEB, selection("other", tier="x"))).required_labels == (("app", "web"), ("tier", "x"))


def test_selections_are_compared_by_content() -> None:
    assert (
        WeightedSelections(((2, WEB),))
        == WeightedSelections(((2, selection("default", app="web")),))
        != WeightedSelections(((3, WEB),))
    )
    assert AllOf((WEB,)) == AllOf((selection("default", app="web"),)) != WeightedSelections(((1, WEB),))
