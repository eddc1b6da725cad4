"""The pods that wait are found where they wait, with what holds them back, and by name."""

from __future__ import annotations

import pytest
from msgspec import structs

from kframework.clock import VIRTUAL_EPOCH
from kframework.explain.view import PodEngineView
from kframework.objects import ObjectMeta, Pod, PodCondition, PodStatus
from kframework.observe.web.pods import MAX_MATCHES, HeldCount, PodMatch, Queues, find_pods, list_queues
from kframework.observe.web.view import PodView
from kframework.scheduler.cooperative import run_to_end
from kframework.state.inbox import Upserted
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene

WHY = "0/1 nodes are available: 1 Insufficient cpu."


def scene() -> Scene:
    """Let one pod be bound, one be too large, one be gated, and two have just come."""
    made = Scene(
        make_node("a", cpu=4),
        make_pod("fits", cpu=1),
        make_pod("huge", cpu=64, priority=5),
        make_pod("gated", gates=["example.com/quota"]),
    ).settle()
    for name, priority in (("late", 0), ("urgent", 9)):
        made.engine.offer(Upserted(make_pod(name, priority=priority)))
    made.engine.apply_messages()
    return made


def shown(made: Scene, **choice: object) -> Queues:
    return list_queues(PodEngineView(made.engine, made.history), **choice)  # type: ignore[arg-type]  # passed on


def names(made: Scene, **choice: object) -> list[str]:
    return [pod.pod.removeprefix("default/") for pod in shown(made, **choice).pods]


def test_all_queues_are_counted_and_listed_in_turn() -> None:
    answer = shown(scene())
    assert answer.counts == {"active": 2, "backoff": 0, "unschedulable": 1, "gated": 1, "binding": 1}
    assert [(pod.pod.removeprefix("default/"), pod.queue) for pod in answer.pods] == [
        ("urgent", "active"),
        ("late", "active"),
        ("huge", "unschedulable"),
        ("gated", "gated"),
        ("fits", "binding"),
    ]
    assert answer.total == 5
    assert answer.held == (
        HeldCount("default-scheduler", "NodeResourcesFit", 1),
        HeldCount("default-scheduler", "SchedulingGates", 1),
    )


def test_binding_pod_shows_its_hook() -> None:
    made = scene()
    reserved = made.engine.cluster.waiting.get(make_pod("fits").metadata.uid)
    assert reserved is not None
    (pod,) = shown(made, queue="binding").pods
    assert (pod.plugins, pod.hook, pod.hook_since) == ((), "", None)
    reserved.hook_started("bind", "Quota", 7.0)
    (pod,) = shown(made, queue="binding").pods
    assert (pod.plugins, pod.hook, pod.hook_since) == (("Quota",), "bind", 7.0)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"queue": "active"}, ["urgent", "late"]),
        ({"queue": "gated"}, ["gated"]),
        ({"queue": "binding"}, ["fits"]),
        ({"queue": "backoff"}, []),
        ({"queue": "nowhere"}, []),
        ({"held_by": ("default-scheduler", "NodeResourcesFit")}, ["huge"]),
        ({"held_by": ("default-scheduler", "SchedulingGates")}, ["gated"]),
        ({"held_by": ("other", "NodeResourcesFit")}, []),
    ],
)
def test_pods_can_be_limited_to_a_queue_or_a_plugin(choice: dict[str, object], expected: list[str]) -> None:
    answer = shown(scene(), **choice)
    assert [pod.pod.removeprefix("default/") for pod in answer.pods] == expected
    assert answer.total == len(expected)


def test_listed_pods_are_limited_and_all_are_counted() -> None:
    answer = shown(scene(), most=2)
    assert [pod.pod for pod in answer.pods] == ["default/urgent", "default/late"]
    assert answer.total == 5


def test_rejected_pod_shows_plugins_and_message() -> None:
    (pod,) = shown(scene(), queue="unschedulable").pods
    assert pod == PodView(
        "default/huge",
        "unschedulable",
        "default-scheduler",
        5,
        None,
        VIRTUAL_EPOCH,
        1,
        plugins=("NodeResourcesFit",),
        held=True,
        message=pod.message,
    )
    assert pod.message.startswith(WHY)


def test_backing_off_pod_shows_when_its_backoff_expires() -> None:
    made = scene()
    made.engine.offer(Upserted(make_node("b", cpu=99)))
    made.engine.apply_messages()
    (pod,) = shown(made, queue="backoff").pods
    assert (pod.pod, pod.until) == ("default/huge", VIRTUAL_EPOCH + 2)


def test_binding_pod_shows_its_node() -> None:
    (pod,) = shown(scene(), queue="binding").pods
    assert (pod.pod, pod.node, pod.tries, pod.until) == ("default/fits", "a", 1, None)


def test_pod_view_has_the_creation_time() -> None:
    born = Pod(metadata=ObjectMeta(name="x", namespace="d", uid="x", creation_timestamp="2026-01-01T00:00:00Z"))
    made = Scene(born)
    made.engine.apply_messages()
    (pod,) = shown(made).pods
    assert pod.created_at == VIRTUAL_EPOCH


def test_pod_without_a_kept_attempt_shows_its_condition() -> None:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="said before")
    made = Scene(structs.replace(make_pod("old", gates=["quota"]), status=PodStatus(conditions=(condition,))))
    made.engine.apply_messages()
    (pod,) = shown(made).pods
    assert pod.message == "said before"


def found(made: Scene, text: str) -> list[PodMatch]:
    return list(run_to_end(find_pods(PodEngineView(made.engine, made.history), text)))


def test_pods_are_found_in_queues_and_on_nodes() -> None:
    made = scene()
    made.engine.offer(Upserted(make_pod("runs", node_name="a")))
    made.engine.apply_messages()
    assert sorted(found(made, "default/"), key=lambda each: each.pod) == [
        PodMatch("default/fits", "binding", "a"),
        PodMatch("default/gated", "gated", ""),
        PodMatch("default/huge", "unschedulable", ""),
        PodMatch("default/late", "active", ""),
        PodMatch("default/runs", "", "a"),
        PodMatch("default/urgent", "active", ""),
    ]
    assert [each.pod for each in found(made, "ate")] == ["default/gated", "default/late"]
    assert found(made, "nothing like it") == []


def test_found_pods_are_limited() -> None:
    made = Scene(*(make_pod(f"pod-{number}") for number in range(MAX_MATCHES + 1)))
    made.engine.apply_messages()
    assert len(found(made, "pod")) == MAX_MATCHES


def test_search_among_many_pods_pauses() -> None:
    made = Scene(*(make_pod(f"pod-{number}") for number in range(1100)))
    made.engine.apply_messages()
    assert sum(1 for _ in find_pods(PodEngineView(made.engine, made.history), "nothing")) == 2


def test_pods_may_change_during_a_search() -> None:
    made = Scene(*(make_pod(f"pod-{number}") for number in range(600)))
    made.engine.apply_messages()
    search = find_pods(PodEngineView(made.engine, made.history), "nothing")
    next(search)
    made.settle()
    assert run_to_end(search) == ()
