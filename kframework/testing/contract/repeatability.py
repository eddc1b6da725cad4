"""Promises about instances: a new one answers as the old one did, and a replay decides as its recording did."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kframework.clock import run_virtual
from kframework.config.load import parse
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.plugin_handle import profiles_factory
from kframework.core.runtime.registry import Registry
from kframework.errors import format_error
from kframework.framework.plugin import Plugin
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import SourceChanged, Synced
from kframework.testing.contract.probe import ContractViolation, PluginProbe, PluginUnderTest
from kframework.testing.random_events import RandomEvents, RandomHost
from kframework.testing.single_plugin import format_configuration
from kframework.testing.stubs import StubClock
from kframework.values.feature_gates import FeatureGates

#: The number of events in a recording, the seconds between them, and the most attempts after each.
_EVENTS, _EVENT_INTERVAL, _ATTEMPTS = 40, 0.5, 20


# -- reload ------------------------------------------------------------------------------------------------------------


def check_reload(probe: PluginProbe) -> None:
    """Expect a new instance to answer like the old one, also when the old one has been closed."""
    new = probe.with_new_instance()
    _expect_same_answers(probe, new, "a new instance")
    _close(probe)
    _expect_same_answers(probe, new, "a new instance, after the old one is closed")


def _expect_same_answers(old: PluginProbe, new: PluginProbe, instance: str) -> None:
    for pod in old.pods:
        expected, answers = old.answers(pod), new.evaluate(pod, new.nodes, new.nodes.order)
        if not expected.is_random:
            remedy = (
                "base answers on the handle, on a source, or on an index of a store: what an instance has stored is"
                " lost with it, and a class attribute is shared with the closed instance"
            )
            new.expect_same(f"{instance}: all hooks", pod, answers, expected, remedy)


def _close(probe: PluginProbe) -> None:
    """Close the instance, unless it has a `start`, which is not called here."""
    plugin = probe.plugin
    if type(plugin).start is not Plugin.start or type(plugin).close is Plugin.close:
        return
    try:
        with ThreadPoolExecutor(1) as executor:  # a loop may be running here
            executor.submit(run_virtual, plugin.close).result()
    except Exception as error:
        remedy = "let `close` release what `start` took, and nothing else"
        probe.fail("close", f"raises {format_error(error)}", remedy, error)


# -- replay ------------------------------------------------------------------------------------------------------------


def check_replay(subject: PluginUnderTest) -> None:
    """Record an engine on random clusters, and expect the same decisions of a replay."""
    for random, gates, example in subject.generators():
        difference = _find_difference(subject, random, gates)
        if difference:
            raise ContractViolation(
                subject.plugin,
                call="the same messages at the same times, in a replay",
                result=difference,
                remedy="take time from handle.clock, chance from handle.random, outside data from a source,"
                " and keep nothing in the class",
                when=example,
            )


def _find_difference(subject: PluginUnderTest, random: Random, gates: FeatureGates) -> str:
    """Return where a replay differs from its recording; "" if it does not."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.jsonl.gz"
        try:
            _RecordedRun(subject, random).write_to(file, gates)
            result = replay(file, Registry.with_plugins(subject.plugin))
        except VerificationError as error:  # under KFRAMEWORK_VERIFY every hook is called twice already
            return str(error)
    return "" if result.difference is None else str(result.difference)


class _RecordedRun(RandomHost):
    """One recorded run: a random cluster, and the host of its engine."""

    def __init__(self, subject: PluginUnderTest, random: Random) -> None:
        self._subject = subject
        self._deferred: list[Callable[[], None]] = []
        super().__init__(RandomEvents(random, nodes=subject.nodes, pods=subject.pods, objects=subject.objects))
        self._clock = StubClock()

    def write_to(self, file: Path, gates: FeatureGates) -> None:
        subject = self._subject
        text = format_configuration(subject.plugin, subject.args, subject.other_plugins, gates)
        configuration = parse(text, "args")
        recorder = Recorder(file, annotations=("*",))
        profiles = profiles_factory(configuration, Registry.with_plugins(subject.plugin), self)
        create = recording_pod_engine_factory(recorder)
        self._recorder, self.engine = recorder, create(configuration, self._clock, self, Extenders(), profiles)
        try:
            self._run()
        finally:
            recorder.close()

    def _run(self) -> None:
        engine = self.engine
        for source in engine.sources:
            values = source.validate(self._subject.sources.get(source.name, {}))
            engine.offer(SourceChanged(source.key, self._clock.now(), values))
        for message in self.events.initial_messages():
            engine.offer(message)
        engine.offer(Synced())
        self._settle()
        for _ in range(_EVENTS):
            self._clock.advance(_EVENT_INTERVAL)
            engine.offer(self.events.next_message())
            self._settle()

    def _settle(self) -> None:
        for _ in range(_ATTEMPTS):
            attempted = self.engine.step()
            deferred, self._deferred = self._deferred, []
            for call in deferred:
                call()
            if not attempted and not deferred and not self.pending_messages:
                break
            messages, self.pending_messages = self.pending_messages, []
            for message in messages:
                self.engine.offer(message)

    # What comes from outside comes between two steps, or it would not be in the recording.

    def _on_verdict(self, reservation: Reservation) -> None:
        self._deferred.append(partial(super()._on_verdict, reservation))

    def evict(self, eviction: Eviction) -> None:
        self._deferred.append(partial(super().evict, eviction))

    def report_decision(self, decision: Decision) -> None:
        self._recorder.on_decision(decision)

    def report_group_decision(self, decision: GroupDecision) -> None:
        self._recorder.on_group_decision(decision)
