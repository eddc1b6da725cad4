"""A pod is found by its name, or it is said in one line why there is nothing to explain."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.finding import known_pod, not_known
from kframework.objects import Pod
from kframework.scheduler.slices import finished
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene


@pytest.mark.parametrize(("namespace", "name"), [("default", "pending"), ("other", "pending"), ("default", "placed")])
def test_a_pod_of_this_scheduler_is_found(namespace: str, name: str) -> None:
    pods = make_pod("pending"), make_pod("pending", namespace="other"), make_pod("placed", node_name="n1")
    scene = Scene(make_node("n1"), *pods)
    scene.engine.catch_up()
    found = finished(known_pod(scene.engine, namespace, name))
    assert found is not None and found.key == f"{namespace}/{name}"


@pytest.mark.parametrize("name", ["absent", "foreign", "foreign-placed"])
def test_no_other_is(name: str) -> None:
    foreign = make_pod("foreign-placed", node_name="n1", scheduler_name="another")
    scene = Scene(make_node("n1"), make_pod("pod"), foreign, make_pod("foreign", scheduler_name="another"))
    scene.engine.catch_up()
    assert finished(known_pod(scene.engine, "default", name)) is None


def test_whoever_looks_through_many_gives_way() -> None:
    scene = Scene(make_node("n1"), *(make_pod(f"p{n}", node_name="n1") for n in range(10_000)))
    scene.engine.catch_up()
    assert sum(1 for _ in known_pod(scene.engine, "default", "absent")) == 2


def ended(phase: str) -> Pod:
    pod = make_pod("pod")
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))


@pytest.mark.parametrize(
    ("pod", "line"),
    [
        (None, "there is no pod default/pod"),
        (
            make_pod("pod", scheduler_name="another"),
            "pod default/pod is for the scheduler 'another'; this one schedules for one, two",
        ),
        (ended("Succeeded"), "pod default/pod has finished (Succeeded): nobody schedules it any more"),
        (ended("Failed"), "pod default/pod has finished (Failed): nobody schedules it any more"),
        (make_pod("pod"), "the scheduler has not heard of pod default/pod yet"),
    ],
)
def test_it_is_said_why_a_pod_is_not_known(pod: Pod | None, line: str) -> None:
    profiles = ["one", "two"] if pod is not None and pod.spec.scheduler_name == "another" else ["default-scheduler"]
    assert not_known("default", "pod", pod, profiles) == line
