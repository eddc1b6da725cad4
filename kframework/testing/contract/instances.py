"""Promises about instances: a new one answers as the old one did, and a replay decides as its recording."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kframework.clock import VIRTUAL_EPOCH, Clock, run_virtual
from kframework.config.load import parse
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.plugin_handle import profiles_factory
from kframework.core.runtime.registry import Registry
from kframework.errors import format_error
from kframework.framework.plugin import Plugin
from kframework.observe.recording.pod_engine import recorded_by
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import SourceChanged, Synced
from kframework.testing.alone import configuration_of
from kframework.testing.contract.questions import ContractViolation, Questions, Subject
from kframework.testing.random_events import RandomEvents, RandomOutside

#: The number of events in a recording, the seconds between them, and the most attempts after each.
_EVENTS, _APART, _ATTEMPTS = 40, 0.5, 20


# -- reload ------------------------------------------------------------------------------------------------------------


def survives_reload(questions: Questions) -> None:
    """Expect a new instance to answer like the old one, also when the old one has been closed."""
    anew = questions.anew()
    _say_the_same(questions, anew, "an instance made anew")
    _close(questions)
    _say_the_same(questions, anew, "an instance made anew, the old one being closed")


def _say_the_same(old: Questions, anew: Questions, whose: str) -> None:
    for pod in old.pods:
        expected, said = old.answers(pod), anew.answers_given(pod, anew.nodes, anew.nodes.order)
        if not expected.drew:
            remedy = (
                "let answers come of what the handle shows, or of a source: what an instance has seen goes with it,"
                " and what a class holds is shared with the one that is closed"
            )
            anew.same(f"{whose}: everything", pod, said, expected, remedy)


def _close(questions: Questions) -> None:
    """Close the instance, if that is allowed without what `start` may do outside."""
    plugin = questions.plugin
    if type(plugin).start is not Plugin.start or type(plugin).close is Plugin.close:
        return
    try:
        with ThreadPoolExecutor(1) as elsewhere:  # a loop may be running here
            elsewhere.submit(run_virtual, plugin.close).result()
    except Exception as error:
        remedy = "let `close` release what `start` took, and nothing else"
        questions.broken("close", f"raises {format_error(error)}", remedy, error)


# -- replay ------------------------------------------------------------------------------------------------------------


def replays_alike(subject: Subject) -> None:
    """Record an engine on random clusters, and expect the same decisions of a replay."""
    for random, example in subject.draws():
        difference = _difference(subject, random)
        if difference:
            raise ContractViolation(
                subject.plugin,
                asked="the same messages at the same times, in a replay",
                answered=difference,
                remedy="take time from handle.clock, chance from handle.random, outside data from a source,"
                " and keep nothing in the class",
                when=example,
            )


def _difference(subject: Subject, random: Random) -> str:
    """Return where a replay differs from its recording; "" if it does not."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.jsonl.gz"
        try:
            _Recorded(subject, random).write_to(file)
            told = replay(file, Registry.with_plugins(subject.plugin))
        except VerificationError as error:  # under KFRAMEWORK_VERIFY every hook is called twice already
            return str(error)
    return "" if told.difference is None else str(told.difference)


class _Recorded(RandomOutside, Clock):
    """One recorded run: a random cluster, and the outside of its engine."""

    def __init__(self, subject: Subject, random: Random) -> None:
        self._subject = subject
        self._later: list[Callable[[], None]] = []
        super().__init__(RandomEvents(random, nodes=subject.nodes, pods=subject.pods, objects=subject.objects))
        self._moment = VIRTUAL_EPOCH

    def now(self) -> float:
        return self._moment

    def write_to(self, file: Path) -> None:
        """Record a run with many events in this file."""
        subject = self._subject
        configuration = parse(configuration_of(subject.plugin, subject.args, subject.beside), "args")
        recorder = Recorder(file, annotations=("*",))
        profiles = profiles_factory(configuration, Registry.with_plugins(subject.plugin), self)
        self._recorder, self.engine = recorder, recorded_by(recorder)(configuration, self, self, Extenders(), profiles)
        try:
            self._run()
        finally:
            recorder.close()

    def _run(self) -> None:
        engine = self.engine
        for source in engine.sources:
            values = source.validate(self._subject.sources.get(source.name, {}))
            engine.offer(SourceChanged(source.key, self.now(), values))
        for message in self.events.opening():
            engine.offer(message)
        engine.offer(Synced())
        self._settle()
        for _ in range(_EVENTS):
            self._moment += _APART
            engine.offer(self.events.draw())
            self._settle()

    def _settle(self) -> None:
        for _ in range(_ATTEMPTS):
            tried = self.engine.step()
            later, self._later = self._later, []
            for answer in later:
                answer()
            if not tried and not later and not self.told:
                break
            told, self.told = self.told, []
            for message in told:
                self.engine.offer(message)

    # What comes from outside comes between two steps, or it would not be in the recording.

    def _permitted(self, reservation: Reservation) -> None:
        self._later.append(partial(super()._permitted, reservation))

    def evict(self, eviction: Eviction) -> None:
        self._later.append(partial(super().evict, eviction))

    def report_decision(self, decision: Decision) -> None:
        self._recorder.on_decision(decision)
