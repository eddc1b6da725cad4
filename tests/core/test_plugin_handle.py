"""The handle: what a plugin may see and ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kframework import (
    ClusterError,
    CycleState,
    Handle,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    Wait,
    hookimpl,
    unschedulable,
)
from kframework.clock import VIRTUAL_EPOCH
from kframework.framework.plugin import Watch
from kframework.objects import Namespace, Node, ObjectMeta, Pod
from kframework.state.pod_templates import TemplateInterner
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario, ScenarioResult, create, delete, patch
from tests.extension_points.scripted import held, plugin, run, scenario


def asked(ask: Callable[[Handle, PendingPod], object], **cluster: Any) -> tuple[object, ScenarioResult]:
    """Ask the handle from a `reserve` hook; return the answer and what became of the run."""
    answers: list[object] = []

    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        answers.append(ask(held(asking), pod))

    asking = plugin("A", reserve=reserve)
    result = run(asking, **cluster)
    return answers[0], result


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda handle, pod: handle.profile_name, "default-scheduler"),
        (lambda handle, pod: [node.name for node in handle.nodes], ["a", "b"]),
        (lambda handle, pod: [each.name for each in handle.pods.values()], ["old", "pod"]),
        (lambda handle, pod: handle.clock.now(), VIRTUAL_EPOCH),
        (lambda handle, pod: handle.waiting_pod(pod.uid), None),
        (lambda handle, pod: len(handle.nominated_pods(pod, "a")), 0),
        (lambda handle, pod: list(handle.waiting_pods()), []),
        (lambda handle, pod: len(list(handle.objects(Namespace))), 0),
        (lambda handle, pod: list(handle.pod_groups), []),
    ],
)
def test_handle_shows_nodes_pods_and_pending_pods(ask: Callable[[Handle, PendingPod], object], answer: object) -> None:
    seen, _ = asked(ask, nodes=("a", "b"), pods=[make_pod("old", node_name="a"), make_pod()])
    assert seen == answer


def test_random_generator_is_separate_and_reproducible_per_plugin() -> None:
    def drawn(name: str) -> int:
        drawing = plugin(name, filter=None)
        run(drawing)
        return held(drawing).random.randrange(10**9)

    assert drawn("A") == drawn("A") != drawn("B")


def test_event_is_recorded_for_the_profile() -> None:
    _, result = asked(lambda handle, pod: handle.event(pod, reason="Odd", action="Looking", note="odd", warning=True))
    event = next(event for event in result.events if event.reason == "Odd")
    assert (event.action, event.note, event.type) == ("Looking", "odd", "Warning")
    assert event.reporting_controller == "default-scheduler"


def test_objects_of_watched_kinds_are_stored_and_changes_call_back() -> None:
    told: list[tuple[str, str]] = []

    def shown(namespace: Namespace | None) -> str:
        return namespace.metadata.labels.get("team", "-") if namespace is not None else ""

    class Watching(plugin("W", filter=None)):  # type: ignore[misc]  # made at run time
        watches = (Watch(Namespace),)

        async def start(self) -> None:
            self.handle.on_change(Namespace, lambda old, new: told.append((shown(old), shown(new))))

    team = Namespace(metadata=ObjectMeta(name="team", labels={"team": "x"}))
    timeline = scenario(Watching)
    timeline.at(1.0, create(team)).at(2.0, patch(team, {"metadata": {"labels": {"team": "y"}}})).at(3.0, delete(team))
    timeline.run()
    # It terminates, is empty, and goes.
    assert told[-5:] == [("", "x"), ("x", "y"), ("y", "y"), ("y", "y"), ("y", "")]


def refuse(pod: PendingPod) -> object:
    return unschedulable("no") if pod.node_name else None


def later(state: CycleState, pod: PendingPod, node: NodeInfo) -> object:
    return unschedulable("later") if pod.node_name else None


@pytest.mark.parametrize(
    ("filters", "answer"),
    [
        ([plugin("F", filter=None)], None),
        ([plugin("F", filter=None), plugin("G", filter=lambda state, pod, node: refuse(pod))], "no"),
        ([plugin("F", filter=lambda state, pod, node: refuse(pod)), plugin("G", filter=later)], "no"),
    ],
)
def test_fits_runs_the_filters_on_the_current_node(filters: list[type[Plugin]], answer: str | None) -> None:
    """The pod itself is on the node by now, and does not fit beside itself."""
    answers: list[str | None] = []

    def permit(state: CycleState, pod: PendingPod, node_name: str) -> None:
        node = held(asking).nodes.find(node_name)
        assert node is not None
        status = held(asking).fits(state, pod, node)
        answers.append(status.message if status is not None else None)

    asking = plugin("A", permit=permit)
    run(*filters, asking)
    assert answers == [answer]


def test_waiting_pod_is_available_until_its_verdict() -> None:
    waiting = plugin("A", permit=Wait(9))
    uid = make_pod().metadata.uid
    seen: list[object] = []

    def look(cluster: object) -> None:
        pod = held(waiting).waiting_pod(uid)
        seen.append(pod and (pod.pod.name, pod.node_name, tuple(pod.pending_plugins)))

    def allow(cluster: object) -> None:
        pod = held(waiting).waiting_pod(uid)
        assert pod is not None and pod.allow("A")

    scenario(waiting).at(1.0, look).at(2.0, allow).at(2.0, look).at(3.0, look).run()
    assert seen == [("pod", "a", ("A",)), None, None]


def test_pending_pods_are_available_by_uid() -> None:
    rejecting = plugin("R", filter=unschedulable("no"))
    run(rejecting, pods=("x", "y"))
    assert sorted(pod.name for pod in held(rejecting).pending.values()) == ["x", "y"]


def test_changes_of_pods_call_back_from_pending_to_gone() -> None:
    told: list[str] = []

    def show(table: str, old: PodInfo | None, new: PodInfo | None) -> None:
        shown = ("-" if each is None else each.node_name or "?" for each in (old, new))
        told.append(f"{table} {'>'.join(shown)}")

    class Following(plugin("F", filter=None)):  # type: ignore[misc]  # made at run time
        async def start(self) -> None:
            self.handle.on_pod_change(lambda old, new: show("pods", old, new))
            self.handle.on_pending_change(lambda old, new: show("pending", old, new))

    scenario(Following, nodes=("a",)).at(9.0, delete(make_pod())).run(until=99)
    # Assumed, confirmed and no longer pending, running, deleted.
    assert list(dict.fromkeys(told)) == ["pending ->?", "pods ->a", "pods a>a", "pending a>-", "pods a>-"]


def test_nominated_pods_are_listed_by_node() -> None:
    def nominate_and_look(handle: Handle, pod: PendingPod) -> list[list[str]]:
        less, more = (
            PendingPod(make_pod(name, priority=priority), TemplateInterner())
            for name, priority in (("less", -1), ("more", 1))
        )
        for other in (less, more, pod):
            handle._engine.cluster.nominator.nominate(other, "a")  # type: ignore[attr-defined]  # as a cycle would in the end
        return [[other.name for other in handle.nominated_pods(pod, node)] for node in "ab"]

    assert asked(nominate_and_look)[0] == [["more"], []]


def test_handle_api_calls_the_cluster() -> None:
    log: list[str] = []

    async def pre_bind(state: CycleState, pod: PendingPod, node_name: str) -> None:
        api = held(working).api
        await api.patch(Pod, pod.name, {"metadata": {"annotations": {"done": "yes"}}}, pod.namespace)
        created = await api.create(make_pod("helper", scheduler_name="another"))
        assert await api.get(Pod, "helper", "default") == created
        listed = await api.list(Pod, "default", labels={})
        assert [each.metadata.name for each in listed] == ["pod", "helper"]
        await api.delete(Pod, "helper", "default")
        try:
            await api.get(Pod, "helper", "default")
        except ClusterError as refusal:
            log.append(str(refusal.status))

    working = plugin("A", pre_bind=pre_bind)
    result = run(working)
    assert log == ["404"]
    assert result.pod("pod").metadata.annotations == {"done": "yes"}
    assert result.state_of("pod") == "bound"


def test_open_statement_is_rolled_back_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def leak(state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        if pod.name == "leaky" and len(node.pods):
            held(leaking).statement().remove(next(iter(node.pods)))

    leaking = plugin("L", filter=leak)
    result = run(leaking, pods=[make_pod("old", node_name="a"), make_pod("leaky"), make_pod("other")])
    assert result.state_of("other") == "bound"
    assert [pod.name for pod in held(leaking).pods.values()].count("old") == 1
    assert len(held(leaking).nodes.find("a").pods) == 3  # type: ignore[union-attr]  # it is there


@pytest.mark.parametrize("kind", [Pod, Node])
def test_objects_of_pods_and_nodes_raises_type_error(kind: type[Pod] | type[Node]) -> None:
    reading = plugin("R", filter=None)
    run(reading)
    with pytest.raises(TypeError, match=f"read handle.{kind.__name__.lower()}s"):
        held(reading).objects(kind)
    with pytest.raises(TypeError):
        held(reading).on_change(kind, lambda old, new: None)


def test_pod_changes_are_reported_from_assumption_to_deletion() -> None:
    changes: list[tuple[str, str]] = []

    def describe(pod: PodInfo | None) -> str:
        return "none" if pod is None else "assumed" if isinstance(pod, PendingPod) else "bound"

    class Follows(Plugin):
        name = "Follows"

        def __init__(self, args: PluginArgs, handle: Handle) -> None:
            super().__init__(args, handle)
            handle.on_pod_change(lambda old, new: changes.append((describe(old), describe(new))))

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
            return None

    run = Scenario(nodes=[make_node("a")], pods=[make_pod()], plugins=[Follows])
    run.at(5, patch(make_pod(), {"metadata": {"labels": {"a": "b"}}})).at(60, delete(make_pod())).run()
    assert changes[:2] == [("none", "assumed"), ("assumed", "bound")]
    assert ("bound", "bound") in changes
    assert changes[-1] == ("bound", "none")


def test_nominations_of_any_priority_are_visible() -> None:
    pods = [
        make_pod("low", cpu=9, priority=-5, nominated_node_name="a"),
        make_pod("high", cpu=9, priority=5, nominated_node_name="b"),
        make_pod("first", priority=9),
    ]
    answer, result = asked(
        lambda handle, pod: {handle.pending[uid].name: node for uid, node in handle.nominations.items()},
        nodes=("a", "b"),
        pods=pods,
    )
    assert answer == {"low": "a", "high": "b"}
    assert result.node_of("first") is not None
