"""Any engine is shown, with what it says of itself and without: its pods, its tables, its report."""

from __future__ import annotations

from kframework.clock import VIRTUAL_EPOCH
from kframework.core.pod_engine import PodEngine
from kframework.objects import ApiObject
from kframework.observe.report import report
from kframework.observe.web.pods import PodMatch, find_pods, list_queues
from kframework.observe.web.sections import DetailView
from kframework.observe.web.summary import summarise_scheduler
from kframework.observe.web.view import BINDING, EngineView
from kframework.scheduler.cooperative import run_to_end
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene
from tests.observe.test_report import data_of
from tests.observe.web.second_engine import second
from tests.support.closed_engine import ClosedEngine

OBJECTS: tuple[ApiObject, ...] = (make_node("a"), make_pod("runs", node_name="a"), make_pod("web"), make_pod("late"))


def plain() -> EngineView[ClosedEngine]:
    return second(*OBJECTS, shown=EngineView)


def bare() -> EngineView[PodEngine]:
    """Show a pod that is being bound and one that is too large as those of any engine."""
    scene = Scene(make_node("a"), make_pod("fits"), make_pod("huge", cpu=99)).settle()
    return EngineView(scene.engine, scene.history)


def test_pending_pods_show_their_last_decision() -> None:
    found = list_queues(plain())
    assert (found.counts, found.held, found.total) == ({"pending": 2, "binding": 0}, (), 2)
    assert [(pod.pod, pod.queue, pod.tries, pod.message) for pod in found.pods] == [
        ("default/web", "pending", 1, "closed today"),
        ("default/late", "pending", 1, "closed today"),
    ]


def test_binding_pods_have_their_own_queue() -> None:
    shown = bare()
    assert shown.count_by_queue() == {"pending": 1, "binding": 1}
    assert [(pod.pod, pod.node) for pod in list_queues(shown, queue=BINDING).pods] == [("default/fits", "a")]
    assert [pod.pod for pod in list_queues(shown, queue="pending").pods] == ["default/huge"]
    assert list_queues(shown, queue="elsewhere").pods == ()
    assert list_queues(shown, held_by=("p", "Guard")).total == 0


def test_found_pods_have_their_queue_or_node() -> None:
    assert sorted(run_to_end(find_pods(bare(), "default/")), key=lambda found: found.pod) == [
        PodMatch("default/fits", "binding", "a"),
        PodMatch("default/huge", "pending", ""),
    ]
    assert run_to_end(find_pods(plain(), "runs")) == (PodMatch("default/runs", "", "a"),)


def test_pod_without_an_attempt_is_listed() -> None:
    scene = Scene(make_node("a"), make_pod("new"))
    scene.engine.apply_messages()
    (pod,) = list_queues(EngineView(scene.engine, scene.history)).pods
    assert (pod.pod, pod.tries, pod.message, pod.queued_at) == ("default/new", 0, "", VIRTUAL_EPOCH)


def test_base_view_has_no_sections_and_details() -> None:
    assert (plain().sections(), plain().details("pod", "default/web")) == ((), DetailView())


def test_summary_works_for_any_engine() -> None:
    found = summarise_scheduler(plain())
    assert (found.nodes, found.pods_on_nodes, found.waiting, found.attempts, found.durations) == (1, 1, 2, 2, None)


def test_report_works_for_any_engine() -> None:
    found = data_of(report(plain(), title="Closed"))
    assert [pod["pod"] for pod in found["queues"]["pods"]] == ["default/web", "default/late"]
    assert (found["sections"], found["details"], found["explanations"]) == ([], {"pod": {}}, {"pod": {}})


def test_pods_are_listed_in_the_queues_of_the_engine() -> None:
    found = list_queues(second(*OBJECTS))
    assert found.counts == {"queue at the door": 2}
    assert [(each.plugin, each.pods) for each in found.held] == [("Guard", 2)]
    assert [pod.pod for pod in list_queues(second(*OBJECTS), held_by=("p", "Guard"), most=1).pods] == ["default/web"]


def test_report_has_details_of_section_refs() -> None:
    found = data_of(report(second(*OBJECTS), title="Closed"))
    assert [section["name"] for section in found["sections"]] == ["days", "more"]
    assert list(found["details"]["day"]) == ["monday"]
    assert found["explanations"]["day"]["monday"]["text"] == "It is open on Monday.\nCome on Monday.\n"
