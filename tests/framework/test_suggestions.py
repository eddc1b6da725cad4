"""Changes of the cluster: what they do, what is left of them with one unit less, and how they are said."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.remedies.remedies import Remedy, in_words
from kframework.framework.suggestions import (
    Change,
    DeletePod,
    FreeResource,
    NodeChange,
    RemoveLabel,
    RemoveTaint,
    SetLabel,
    Uncordon,
    amount_of,
    listed,
    written,
)
from kframework.objects import Taint
from kframework.objects.requests import allocatable
from kframework.objects.taints import CORDON, is_cordon
from kframework.testing import make_node

GPU = Taint(key="dedicated", value="gpu", effect="NoSchedule")
WEB, DB = DeletePod("default/web", "1", "a"), DeletePod("default/db", "2", "a")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Uncordon("a"), "uncordon a"),
        (RemoveTaint("a", GPU), "remove the taint dedicated=gpu:NoSchedule from a"),
        (SetLabel("a", "disk", "ssd"), "label a with disk=ssd"),
        (RemoveLabel("a", "disk"), "remove the label disk from a"),
        (WEB, "delete pod default/web on a"),
        (FreeResource("a", "cpu", 500), "free 500m cpu on a"),
        (FreeResource("a", "cpu", 2000, ("default/web",)), "free 2 cpu on a (e.g. delete default/web)"),
        (FreeResource("a", "memory", 1 << 30), "free 1Gi memory on a"),
        (FreeResource("a", "memory", 1), "free 1 byte of memory on a"),
        (FreeResource("a", "ephemeral-storage", 1001), "free 1001 bytes of ephemeral-storage on a"),
        (FreeResource("a", "nvidia.com/gpu", 2), "free 2 nvidia.com/gpu on a"),
        (FreeResource("a", "pods", 1), "free room for one more pod on a"),
        (FreeResource("a", "pods", 3), "free room for 3 more pods on a"),
    ],
)
def test_a_change_is_said(change: Change, text: str) -> None:
    assert change.text == text


def test_changes_are_joined_and_deletions_told_together() -> None:
    elsewhere = DeletePod("default/far", "3", "b")
    assert in_words([WEB]) == "delete pod default/web on a"
    assert in_words([WEB, DB]) == "delete pods default/web and default/db on a"
    assert in_words([WEB, DB, elsewhere]) == "delete pods default/web, default/db and default/far"
    assert in_words([WEB, Uncordon("a"), DB]) == "uncordon a and delete pods default/web and default/db on a"
    joined = in_words([Uncordon("a"), RemoveLabel("a", "x"), WEB])
    assert joined == "uncordon a, remove the label x from a and delete pod default/web on a"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
    ],
)
def test_few_are_named_and_the_rest_is_counted(names: list[str], text: str) -> None:
    assert listed(names) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1, "1m"),
        ("cpu", 1500, "1500m"),
        ("memory", 3 << 20, "3Mi"),
        ("memory", 1001, "1001"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("example.com/x", 2048, "2048"),
    ],
)
def test_amounts_are_written_exactly(resource: str, amount: int, text: str) -> None:
    assert amount_of(resource, amount) == text


def test_taints_are_written_as_kubectl_does() -> None:
    assert written(GPU) == "dedicated=gpu:NoSchedule"
    assert written(CORDON) == "node.kubernetes.io/unschedulable:NoSchedule"


# -- what they do ------------------------------------------------------------------------------------------------------


def test_uncordoning_takes_the_taint_away_too() -> None:
    node = make_node(unschedulable=True, taints=[CORDON, GPU])
    freed = Uncordon("node").on_node(node)
    assert not freed.spec.unschedulable
    assert freed.spec.taints == (GPU,)
    assert is_cordon(CORDON) and not is_cordon(GPU)


def test_a_taint_is_told_by_key_value_and_effect_whenever_it_was_added() -> None:
    other = Taint(key="dedicated", value="gpu", effect="NoExecute")
    timed = msgspec.structs.replace(GPU, time_added="2026-01-01T00:00:00Z")
    assert RemoveTaint("node", GPU).on_node(make_node(taints=[timed, other])).spec.taints == (other,)


def test_labels_come_and_go() -> None:
    node = make_node("a", labels={"disk": "hdd"})
    assert SetLabel("a", "disk", "ssd").on_node(node).metadata.labels["disk"] == "ssd"
    assert "disk" not in RemoveLabel("a", "disk").on_node(node).metadata.labels
    assert node.metadata.labels["disk"] == "hdd"


@pytest.mark.parametrize(
    ("resource", "before", "amount", "after"),
    [("cpu", "1500m", 250, 1750), ("memory", "1Gi", 1, (1 << 30) + 1), ("pods", 110, 2, 112), ("x.io/y", None, 3, 3)],
)
def test_what_is_freed_is_offered_on_top(resource: str, before: str | int | None, amount: int, after: int) -> None:
    node = make_node(cpu=None, memory=None, pods=None, allocatable={} if before is None else {resource: before})
    assert allocatable(FreeResource("node", resource, amount).on_node(node))[resource] == after


# -- one unit less -----------------------------------------------------------------------------------------------------


def test_only_amounts_have_less() -> None:
    cpu = FreeResource("a", "cpu", 2, ("default/web",))
    assert (cpu.amount, cpu.less()) == (2, FreeResource("a", "cpu", 1, ("default/web",)))
    assert cpu.with_amount(7) == FreeResource("a", "cpu", 7, ("default/web",))
    assert FreeResource("a", "cpu", 1).less() is None
    assert (WEB.amount, WEB.less()) == (1, None)


def test_remedies_are_read_back_from_json() -> None:
    changes = (Uncordon("a"), RemoveTaint("a", GPU), FreeResource("a", "cpu", 500, ("default/web",)), WEB)
    remedy = Remedy(in_words(changes), changes)
    text = msgspec.json.encode(remedy)
    assert msgspec.json.decode(text, type=Remedy) == remedy
    kinds = [change["kind"] for change in msgspec.json.decode(text)["changes"]]
    assert kinds == ["uncordon", "removeTaint", "freeResource", "deletePod"]


def test_every_change_of_a_node_names_it() -> None:
    assert all("node" in kind.__struct_fields__ for kind in NodeChange.__subclasses__())
