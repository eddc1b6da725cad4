"""What recordings of the pod engine have of their own: verdicts on waiting pods, and parts that begin in the middle.

    {"at": 1767225601.0, "what": "Allowed", "with": {"uid": "...", "plugin": "Gang"}}    a waiting pod gets one consent
    {"at": 1767225601.0, "what": "Judged", "with": {"uid": "...", "status": {...}}}      and its verdict

A part that goes on where another ended begins with the objects as they were last told, what the plugins' sources hold,
the last decision on every pod that waited for another attempt or for its binding, each by itself and without a step,
the nominations, and {"what": "Continued"} with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.config.show import effective_yaml
from kframework.core.cycle.consequences import Reservation
from kframework.core.effects import Host
from kframework.core.plugin_handle import profiles_for
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry, built_in_args
from kframework.observe.recording.engines import EngineKind
from kframework.observe.recording.file import Opening
from kframework.observe.recording.reader import Recorded
from kframework.observe.recording.writer import Header, Line, RecordedEngine, Recorder
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.scheduler import MakeEngine
from kframework.state.inbox import Activated, Message, Nominated, SourceChanged, SourceFailed, Synced
from kframework.values.status import Status


class Allowed(msgspec.Struct, frozen=True):
    """A Permit plugin has allowed a pod that still waits for others."""

    uid: str
    plugin: str


class Judged(msgspec.Struct, frozen=True):
    """A waiting pod has its verdict."""

    uid: str
    status: Status


class Continued(msgspec.Struct, frozen=True):
    """Where an engine stood between two attempts: how many there were, and where the next search starts."""

    attempts: int
    rotation: int


# -- recorded --------------------------------------------------------------------------------------------------------


def recorded_by(recorder: Recorder) -> MakeEngine[PodEngine]:
    """Return what makes the engine that a configuration asks for, and has a recorder write what reaches it."""

    def again(configuration: Configuration) -> str:
        return effective_yaml(configuration, built_in_args(configuration))

    return recorder.recording(RecordedPodEngine.of, again)


class RecordedPodEngine(RecordedEngine, PodEngine):
    """A pod engine that tells a recorder what reaches it from outside, and when it takes a step."""

    def launch(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod, and listen to what is said to it."""
        uid = reservation.pod.uid

        def listen(plugin: str, verdict: Status | None) -> None:
            self.told(Allowed(uid, plugin) if verdict is None else Judged(uid, verdict))

        reservation.reserved.listen = listen
        super().launch(reservation)

    def opening(self, header: Header, now: float) -> Opening:
        nodes, nominator, queue = self.cluster.nodes, self.cluster.nominator, self.queue
        awake = (queued.pod.uid for queued in queue if not queue.dormant(queued.pod.uid))
        nominated = (
            Nominated(uid, node_name)
            for uid, pod in self.handlers.pending.items()
            if (node_name := nominator.node_of(uid)) != pod.nominated_node_name
        )
        after = (Activated(tuple(awake)), *nominated, Continued(self.attempts, self.rotation.next_start_index))
        return Opening(
            header,
            nodes=[nodes[row].name for row in nodes.order.tolist()],
            before=[*((now, what) for what in self._heard()), *([(now, Synced())] if self.synced else [])],
            after=[(now, what) for what in after],
        )

    def _heard(self) -> Iterator[Message]:
        """Say what the sources of the plugins hold, and what is wrong with them."""
        for source in self.sources:
            if source.updated_at is not None:
                yield SourceChanged(source.key, source.updated_at, dict(source))
            if source.error:
                yield SourceFailed(source.key, source.error)


# -- told again ------------------------------------------------------------------------------------------------------


class PodEngines(EngineKind[PodEngine]):
    """How pod engines are made for a replay: of this class, and with the plugins of this registry."""

    def __init__(self, registry: Registry | None = None, engine: type[PodEngine] = PodEngine) -> None:
        self._registry = registry
        self._engine = engine

    def again(self, configuration: str, file: str, clock: Clock, outside: Host) -> PodEngine:
        parsed = parse(configuration, file)
        profiles = profiles_for(parsed, self._registry or Registry.installed(), outside)
        return self._engine.of(parsed, clock, outside, Extenders(), profiles)

    def tell(self, engine: PodEngine, recorded: Recorded, line: Line) -> None:
        if line.what == "Allowed":
            allowed = recorded.read(line.body, Allowed)
            if (reserved := engine.cluster.waiting.get(allowed.uid)) is not None:
                reserved.allow(allowed.plugin)
        elif line.what == "Judged":
            judged = recorded.read(line.body, Judged)
            if (reserved := engine.cluster.waiting.get(judged.uid)) is not None:
                reserved.decide(judged.status)
        elif line.what == "Continued":
            continued = recorded.read(line.body, Continued)
            engine.attempts = continued.attempts
            engine.rotation.next_start_index = continued.rotation
        else:
            super().tell(engine, recorded, line)
