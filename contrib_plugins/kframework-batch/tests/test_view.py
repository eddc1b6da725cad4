"""What the page shows of sessions: pods by queue, who holds them back, jobs, and what is known of each thing."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import Response
from kframework_batch.account import SessionHistory
from kframework_batch.objects import PodGroup
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang, make_group, make_node, make_queue, make_task
from kframework_batch.view import NO_GROUP, BatchView
from msgspec.structs import replace

from kframework.engine import DetailView, History, Ref, Section, Tone
from kframework.objects import OwnerReference
from kframework.observe.web.routes import web_routes
from kframework.testing import make_pod


def shown(stage: Stage) -> BatchView:
    """Show a stage, of whose sessions all is remembered."""
    history, sessions = History(), SessionHistory()
    for decision in stage.decisions:
        history.on_decision(decision)
    for account in stage.accounts:
        sessions.on_account(account)
    return BatchView(stage.engine, history, sessions)


def stage() -> Stage:
    """Let a gang run, one have room for two of three, and a pod wait that has no group."""
    lost = make_pod("lost", scheduler_name="volcano")
    gangs = [make_gang("runs", 2, queue="blue"), make_gang("large", 3, queue="red", age=-1.0)]
    queues = [make_queue("blue", weight=3), make_queue("red")]
    return Stage(nodes=[make_node("n", cpu=4)], queues=queues, gangs=gangs, objects=[lost]).session(2)


def named(sections: tuple[Section, ...], name: str) -> Section:
    (found,) = (section for section in sections if section.name == name)
    return found


def test_pending_pods_are_listed_by_queue() -> None:
    found = shown(stage())
    assert found.count_by_queue() == {"queue red": 3, NO_GROUP: 1, "binding": 0}
    assert sorted(pod.pod for pod in found.pods_in("queue red")) == [f"default/large-{n}" for n in range(3)]
    assert [pod.pod for pod in found.pods_in(NO_GROUP)] == ["default/lost"]
    assert list(found.pods_in("queue blue")) == list(found.pods_in("nowhere")) == []


def test_queue_label_does_not_collide_with_other_groups() -> None:
    made = Stage(queues=[make_queue("binding")], gangs=[make_gang("g", 2, queue="binding")]).session()
    assert shown(made).count_by_queue() == {"queue binding": 2, "binding": 0}


def test_pods_of_missing_group_have_no_queue() -> None:
    made = Stage(objects=[make_task("early", "later")]).session()
    assert shown(made).count_by_queue() == {NO_GROUP: 1, "binding": 0}
    made.put(make_group("later"))
    made.engine.apply_messages()
    assert shown(made).count_by_queue() == {"queue default": 1, "binding": 0}


def test_queue_of_a_pod_is_found() -> None:
    made = stage()
    found, tasks = shown(made), made.engine.cache.tasks
    assert {task.name: found.queue_of(task.pod) for task in tasks.values()} == {
        **{f"large-{number}": "queue red" for number in range(3)},
        **{f"runs-{number}": "" for number in range(2)},
    }
    (lost,) = (pod for pod in made.engine.pending.values() if pod.name == "lost")
    assert found.queue_of(lost) == NO_GROUP


def test_pods_allocated_in_the_open_session_are_pending() -> None:
    made = stage()
    made.put(make_queue("green"))
    made.time += 1.0
    seen = []
    while made.engine.step():
        seen.append(shown(made).count_by_queue())
    assert len(seen) > 3
    assert {places["queue red"] for places in seen} == {3}


@pytest.mark.parametrize(
    "view", ["node?name=n", "nodes", "summary", "details?kind=job&name=default/large", "find?text=large"]
)
async def test_page_waits_for_the_end_of_the_session(view: str) -> None:
    made = stage()
    before = await viewed(made, view)
    made.put(make_queue("green"))
    made.time += 1.0
    assert made.engine.step()
    while not made.job("large").count(TaskStatus.ALLOCATED):
        assert made.engine.step()
    asked = asyncio.ensure_future(viewed(made, view))
    while not made.engine.is_between_sessions:
        await asyncio.sleep(0)
        assert not asked.done()
        made.engine.step()
    assert await asked == before


async def viewed(made: Stage, view: str) -> object:
    """Ask for a view of the page, without what goes by the clock of this machine."""
    route = next(route for route in web_routes(shown(made)) if route.path == f"/view/{view.partition('?')[0]}")
    answer = await route.handler(make_mocked_request("GET", f"/view/{view}"))
    assert isinstance(answer, Response) and answer.text is not None
    return {**data, "now": 0} if isinstance(data := json.loads(answer.text), dict) else data


def test_binding_pods_are_listed_separately() -> None:
    made = Stage(nodes=[make_node("n")], gangs=[make_gang("g", 1)])
    while not len(made.engine.cluster.waiting):
        assert made.engine.step()
    found = shown(made)
    assert found.count_by_queue() == {"binding": 1}
    assert [(pod.pod, pod.node) for pod in found.pods_in("binding")] == [("default/g-0", "n")]
    (task,) = made.engine.cache.tasks.values()
    assert found.queue_of(task.pod) == "binding"


def test_rejecting_plugin_holds_the_pods_of_the_job() -> None:
    found = shown(stage())
    assert found.count_by_plugin() == {("volcano", "proportion"): 3}
    held = {pod.pod: (pod.plugins, pod.held, pod.message) for pod in found.pods_held_by(("volcano", "proportion"))}
    once = "Pod default/large-1 can possibly be assigned to n, once minAvailable is satisfied"
    assert held.keys() == {f"default/large-{number}" for number in range(3)}
    assert held["default/large-0"] == (("proportion",), True, "queue red has no share left for it")
    assert held["default/large-1"] == (("proportion",), True, once)
    assert list(found.pods_held_by(("volcano", "gang"))) == []


def test_rejections_of_earlier_sessions_hold_no_pods() -> None:
    made = stage()
    found = shown(made)
    made.delete("large", PodGroup)
    made.put(make_group("large", minimum=3, queue="nowhere"))
    made.session()
    assert found.count_by_plugin() != {} and shown(made).count_by_plugin() == {}


def test_gated_pods_show_their_gates() -> None:
    made = Stage(gangs=[(make_group("g"), [make_task("g-0", "g", gates=["example.com/quota"])])]).session()
    assert [pod.message for pod in shown(made).pods_in("queue default")] == ["gated by example.com/quota"]


def test_queues_are_listed_before_the_first_session() -> None:
    made = Stage(queues=[make_queue("blue", weight=3)])
    made.engine.apply_messages()
    assert [row.cells[:2] for row in named(shown(made).sections(), "queues").rows] == [("default", 1), ("blue", 3)]
    assert named(shown(made).sections(), "sessions").rows == ()


def test_queues_are_listed_in_the_order_of_the_last_session() -> None:
    rows = named(shown(stage()).sections(), "queues").rows
    assert [row.cells[:3] for row in rows] == [("red", 1, 3), ("blue", 3, 0), ("default", 1, 0)]


def test_pending_jobs_are_listed_first_with_reasons() -> None:
    section = named(shown(stage()).sections(), "jobs")
    large, runs = section.rows
    assert (section.total, section.note) == (2, "Jobs that cannot run yet first, then by the number of pending tasks.")
    last = ("discarded in allocate", "2 of 3", Ref("session", "2"), "proportion: queue red has no share left for it")
    assert large.cells == (Ref("job", "default/large"), "red", "Inqueue", "0 of 3", "3 Pending", *last)
    first = ("committed in allocate", "2 of 2", Ref("session", "1"), "")
    assert runs.cells == (Ref("job", "default/runs"), "blue", "Running", "2 of 2", "2 Running", *first)
    assert (large.tone, runs.tone) == (Tone.WAITING, Tone.GOOD)


def test_jobs_are_listed_by_urgency() -> None:
    group, (pod,) = make_gang("done", 1, on=["n"])
    done = group, [replace(pod, status=replace(pod.status, phase="Succeeded"))]
    gangs = [done, make_gang("runs", 1, on=["n"]), make_gang("more", 3, minimum=1, on=["n"])]
    made = Stage(nodes=[make_node("n", cpu=2)], gangs=[*gangs, make_gang("large", 2)]).session()
    rows = named(shown(made).sections(), "jobs").rows
    assert [row.cells[0] for row in rows] == [
        Ref("job", f"default/{name}") for name in ("large", "more", "runs", "done")
    ]


def test_job_without_turn_has_a_reason() -> None:
    made = Stage(nodes=[make_node("n")], gangs=[make_gang("g", 1, queue="nowhere")]).session()
    (row,) = named(shown(made).sections(), "jobs").rows
    assert row.cells[5:] == ("", "", None, "there is no queue 'nowhere'")


def test_job_lists_the_reasons_of_each_action() -> None:
    config = """
        actions: "allocate, preempt"
        tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}, {name: proportion}]}]
    """
    runs, large = make_gang("runs", 2, on=["n", "n"]), make_gang("large", 2, cpu=3)
    made = Stage(config, nodes=[make_node("n", cpu=4), make_node("m", cpu=2)], gangs=[runs, large]).session()
    why = next(row.cells[-1] for row in named(shown(made).sections(), "jobs").rows)
    assert isinstance(why, str)
    assert [why.count(words) for words in ("Insufficient cpu", "pods that may be evicted", "protects")] == [1, 1, 1]
    assert shown(made).count_by_plugin() == {}


def test_job_is_named_after_its_owner() -> None:
    group = make_group("resnet-4711")
    owned = replace(group.metadata, owner_references=(OwnerReference(kind="Job", name="resnet"),))
    made = Stage(gangs=[(replace(group, metadata=owned), [])]).session()
    (row,) = named(shown(made).sections(), "jobs").rows
    assert row.cells[0] == Ref("job", "default/resnet-4711", "default/resnet")


def test_session_has_details() -> None:
    turns = named(shown(stage()).details("session", "1").sections, "turns")
    assert [row.cells[0] for row in turns.rows] == [Ref("job", "default/runs"), Ref("job", "default/large")]


def test_job_details_have_tasks_and_turns() -> None:
    made = shown(stage())
    tasks, turns = made.details("job", "default/large").sections
    assert (tasks.title, len(tasks.rows), len(turns.rows)) == ("Tasks of default/large", 3, 2)
    tried = {row.cells[0]: row.cells[1:] for row in tasks.rows}
    assert tried[Ref("pod", "default/large-0")] == ("Pending", None, "queue red has no share left for it")
    runs, _ = made.details("job", "default/runs").sections
    assert [row.cells[1:] for row in runs.rows] == [("Running", Ref("node", "n"), "")] * 2


def test_deleted_job_details_have_turns() -> None:
    made = stage()
    for number in range(3):
        made.delete(f"large-{number}")
    made.delete("large", PodGroup)
    made.engine.apply_messages()
    (turns,) = shown(made).details("job", "default/large").sections
    assert len(turns.rows) == 2


def test_pod_details_have_verdicts() -> None:
    (verdicts,) = shown(stage()).details("pod", "default/large-0").sections
    assert [row.cells[0] for row in verdicts.rows] == [Ref("session", "2"), Ref("session", "1")]


def test_unknown_names_have_no_details() -> None:
    found = shown(stage())
    things = [("session", "9"), ("job", "default/none"), ("pod", "default/none"), ("day", "monday")]
    assert [found.details(*thing) for thing in things] == [DetailView()] * 4
