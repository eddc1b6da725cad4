"""A running scheduler takes another configuration between two cycles, and keeps what that does not change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kframework.clock import run_virtual
from kframework.config.models import ExtenderSettings
from kframework.errors import ConfigError, PluginError
from kframework.objects import Namespace, ObjectMeta, PriorityClass
from kframework.scheduler.extender import Extender
from tests.support.extenders import ScriptedExtender
from tests.support.reloads import JOURNAL, Stage, document, profile

#: An extender whose certificate is not there.
TLS = "enableHTTPS: true, tlsConfig: {caFile: /missing/ca.crt}"
UNREADABLE = f"extenders: [{{urlPrefix: 'https://x', filterVerb: f, {TLS}}}]"


def running(text: str, work: Callable[[Stage], Awaitable[None]]) -> None:
    """Run a scheduler of a configuration while `work` goes on."""

    async def main() -> None:
        JOURNAL.clear()
        stage = Stage(text)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.scheduler.run)
            await asyncio.sleep(0.1)
            await work(stage)
            stage.scheduler.stop()

    run_virtual(main)


def test_next_pods_are_decided_by_it_and_say_so() -> None:
    async def work(stage: Stage) -> None:
        await stage.add("first")
        await stage.take(document(profile(node="b")))
        await stage.add("second")
        await stage.take(document(profile(node="a")))
        await stage.add("third")
        assert [(each.node, each.configuration) for each in stage.decisions()] == [("a", 1), ("b", 2), ("a", 3)]

    running(document(profile(node="a")), work)


def test_plugin_with_equal_args_stays_and_another_is_replaced() -> None:
    async def work(stage: Stage) -> None:
        before = stage.scheduler.profiles["default-scheduler"]
        rule, others = stage.rule, {name: each for name, each in before.plugins.items() if name != "Rule"}
        await stage.take(document(profile(node="a", weight=3)))
        assert stage.rule is rule
        await stage.take(document(profile(node="b")))
        after = stage.scheduler.profiles["default-scheduler"]
        assert stage.rule is not rule and {name: after.plugins[name] for name in others} == others
        await asyncio.sleep(1.0)
        stage.cluster.add(Namespace(metadata=ObjectMeta(name="new")))
        await asyncio.sleep(0.1)
        assert "new" in stage.rule.seen and "new" not in rule.seen, "one that is closed hears nothing"

    running(document(profile(node="a")), work)
    assert JOURNAL[:2] == ["start a", "start b"] and set(JOURNAL[2:4]) == {"end of work a", "close a"}
    assert set(JOURNAL[4:]) == {"end of work b", "close b"}


def test_unchanged_profile_keeps_what_it_remembers() -> None:
    two = document(profile(node="a"), profile("other", node="a"))

    async def work(stage: Stage) -> None:
        await stage.add("pod")
        profiles, caches = stage.scheduler.profiles, stage.scheduler.engine._plan_caches
        kept, dropped, remembered = profiles["default-scheduler"], profiles["other"], caches["default-scheduler"]
        await stage.take(document(profile(node="a"), profile("other", node="b")))
        assert profiles["default-scheduler"] is kept and profiles["other"] is not dropped
        assert caches["default-scheduler"] is remembered and len(remembered) == 1

    running(two, work)


def test_pods_on_permit_are_finished_by_the_plugins_that_reserved_them() -> None:
    async def work(stage: Stage) -> None:
        await stage.add("allowed")
        await stage.add("rejected")
        rule = stage.rule
        await stage.take(document(profile(node="b")))
        await asyncio.sleep(10.0)
        assert "close a" not in JOURNAL
        waiting = {each.pod.name: each for each in rule.handle.waiting_pods()}
        waiting["allowed"].allow("Rule")
        waiting["rejected"].reject("Rule", "no")
        await asyncio.sleep(20.0)
        assert (stage.node_of("allowed"), stage.node_of("rejected")) == ("a", "b")

    running(document(profile(node="a", holds=True)), work)
    calls = [entry for entry in JOURNAL if "post_bind" in entry or "unreserve" in entry or entry == "close a"]
    assert calls[:2] == ["post_bind allowed a", "unreserve rejected a"]
    assert sorted(calls[2:]) == ["close a", "post_bind rejected b"]


def test_gates_are_asked_again_and_pods_that_pass_keep_their_place() -> None:
    async def work(stage: Stage) -> None:
        for name in ("new-1", "old-1", "both"):
            await stage.add(name)
        queue = stage.scheduler.engine.queue
        assert [each.pod.name for each in queue.pods_in("gated")] == ["old-1"]
        stage.scheduler.stand_by()
        for name in ("new-2", "late-2", "late-1"):
            await stage.add(name, priority=1 if name == "late-1" else 0)
        await stage.take(document(profile(gate="new", node="a")))
        assert [each.pod.name for each in queue.pods_in("gated")] == ["new-2"]
        assert [each.pod.name for each in queue.pods_in("active")] == ["late-1", "old-1", "late-2"]

    running(document(profile(gate="old", node="a")), work)


def test_rejected_pods_are_tried_again_if_another_plugin_could_accept_them() -> None:
    async def work(stage: Stage) -> None:
        await stage.add("pod")
        await asyncio.sleep(20.0)
        await stage.take(document(profile(node="c", weight=2)))
        await asyncio.sleep(20.0)
        assert len(stage.decisions()) == 1, "another weight lets no pod in"
        await stage.take(document(profile(node="b")))
        await asyncio.sleep(0.1)
        assert stage.node_of("pod") == "b"

    running(document(profile(node="c")), work)


def test_pods_of_removed_profiles_are_left_and_those_of_added_ones_are_taken() -> None:
    both = document(profile(), profile("other", node="c"))

    async def work(stage: Stage) -> None:
        await stage.add("pod", scheduler_name="other")
        await stage.add("third", scheduler_name="third")
        await stage.take(document(profile()))
        engine = stage.scheduler.engine
        assert not engine.pending and len(engine.queue) == 0
        await stage.take(document(profile("other"), profile("third")))
        await asyncio.sleep(0.1)
        assert {stage.node_of("pod"), stage.node_of("third")} <= {"a", "b"}
        assert not engine.handlers.foreign

    running(both, work)


def test_pod_of_a_removed_profile_that_waits_on_permit_is_finished_and_not_retried() -> None:
    async def work(stage: Stage) -> None:
        await stage.add("pod", scheduler_name="other")
        rule = stage.scheduler.profiles["other"].plugins["Rule"]
        await stage.take(document(profile()))
        (waiting,) = rule.handle.waiting_pods()
        waiting.reject("Rule", "no")
        await asyncio.sleep(60.0)
        assert stage.node_of("pod") == "" and len(stage.decisions()) == 1
        assert list(stage.scheduler.engine.handlers.foreign) == [waiting.pod.uid]

    running(document(profile(), profile("other", node="a", holds=True)), work)
    assert "unreserve pod a" in JOURNAL


def test_source_of_a_new_plugin_has_its_data_before_it_decides() -> None:
    async def work(stage: Stage) -> None:
        await asyncio.sleep(5.0)
        await stage.add("first")
        adding = asyncio.create_task(stage.take(document(profile(plugin="Fed", node="b"))))
        await asyncio.sleep(1.0)
        await stage.add("second")
        assert stage.node_of("second") == "a", "the old one decides until the new one is ready"
        await adding
        await stage.add("third")
        await asyncio.sleep(30.0)

    running(document(profile(plugin="Fed", node="a")), work)
    first, *others = [entry for entry in JOURNAL if entry.startswith("fetch")]
    assert first == "fetch a" and set(others) == {"fetch b"}


def test_kind_that_only_the_new_plugins_need_is_listed_before_they_decide() -> None:
    async def work(stage: Stage) -> None:
        stage.cluster.add(_priority_class("gold"))
        await stage.take(document(profile(plugin="WatchingRule")))
        await stage.add("pod")
        assert stage.node_of("pod") and PriorityClass in stage.scheduler.kinds
        stage.cluster.add(_priority_class("silver"))
        await stage.add("late")
        assert stage.decisions()[-1].reasons == {"sees ['gold', 'silver']": 2}
        await stage.take(document(profile()))
        await stage.take(document(profile(plugin="WatchingRule")))

    running(document(profile()), work)


def _priority_class(name: str) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=1)


def test_extenders_are_replaced_and_the_old_ones_closed_after_their_bindings() -> None:
    asked: list[tuple[str, str]] = []
    lines: dict[str, ScriptedExtender] = {}

    def connect(settings: ExtenderSettings) -> Extender:
        name = settings.url_prefix.rpartition("/")[2]

        def accept(question: Any) -> object:
            asked.append((name, question["Pod"]["metadata"]["name"]))
            return {"NodeNames": [name]}

        lines[name] = ScriptedExtender({"filter": accept})
        return Extender(settings, lines[name])

    def extended(name: str) -> str:
        return document(
            profile(holds=True),
            settings=f"extenders: [{{urlPrefix: 'http://{name}', filterVerb: filter, nodeCacheCapable: true}}]",
        )

    async def main() -> None:
        stage = Stage(extended("a"), extender=connect)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.scheduler.run)
            await stage.add("first")
            await stage.take(extended("b"))
            await stage.add("second")
            assert [(line, lines[line].open) for line in lines] == [("a", 1), ("b", 1)], "the first one waits on Permit"
            for waiting in stage.rule.handle.waiting_pods():
                waiting.allow("Rule")
            await asyncio.sleep(1.0)
            assert (stage.node_of("first"), stage.node_of("second")) == ("a", "b")
            assert lines["a"].open == 0
            await stage.take(document(profile(holds=True)))
            await stage.add("third")
            stage.scheduler.stop()
        assert [line.open for line in lines.values()] == [0, 0]

    run_virtual(main)
    assert asked == [("a", "first"), ("b", "second")]


def test_pods_are_retried_at_the_new_times() -> None:
    async def work(stage: Stage) -> None:
        await stage.add("pod")
        await stage.take(document(profile(node="c"), options="podMaxInUnschedulablePodsDuration: 30s"))
        await asyncio.sleep(61.0)
        assert len(stage.decisions()) == 2, "after half a minute instead of five minutes"

    running(document(profile(node="c")), work)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (document(profile(), settings="leaderElection: {leaseDuration: 20s}"), "leaderElection.leaseDuration: cannot"),
        (document(profile(), settings="clientConnection: {qps: 7}"), "clientConnection.qps: cannot change"),
        (document(profile(), options="seed: 7"), "seed: cannot change while the scheduler runs, from 0 to 7"),
        (document(profile(), options="featureGates: {GenericWorkload: true}"), "featureGates: cannot change"),
        (document(profile(plugin="Missing")), "Missing"),
        (document(profile(), settings=UNREADABLE), "/missing/ca.crt"),
        (document(profile(unknown=1)), "unknown"),
        (document(profile(fails=True)), "plugin 'Rule', hook start: ConnectionError: no licence"),
    ],
)
def test_configuration_that_cannot_be_taken_changes_nothing(text: str, refusal: str) -> None:
    async def work(stage: Stage) -> None:
        before, rule = dict(stage.scheduler.profiles), stage.rule
        known = len(stage.scheduler.engine.cluster.objects(Namespace)._callbacks)
        with pytest.raises((ConfigError, PluginError), match=re.escape(refusal)):
            await stage.take(text)
        assert dict(stage.scheduler.profiles) == before and stage.scheduler.engine.configuration_number == 1
        callbacks = len(stage.scheduler.engine.cluster.objects(Namespace)._callbacks)
        assert callbacks == known, "what the new plugins subscribed to is ended"
        stage.cluster.add(Namespace(metadata=ObjectMeta(name="new")))
        await stage.add("pod")
        assert stage.node_of("pod") == "a" and "new" in rule.seen

    running(document(profile(node="a")), work)
    assert sorted(JOURNAL) == ["close a", "end of work a", "post_bind pod a", "start a"]
