"""A recording written by `kframework run` or `simulate` with `--record`, for queries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.runtime.registry import Registry
from kframework.errors import ExplainError
from kframework.explain.choice import explain_decision
from kframework.explain.explainer import explain
from kframework.explain.explanation import Explanation
from kframework.explain.lookup import find_pod
from kframework.framework.plugin import Plugin
from kframework.observe.history import History
from kframework.observe.recording.diff import ReplayResult
from kframework.observe.recording.engines import E, EngineKind
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.replay import Replay, follow, replay
from kframework.observe.web.view import EngineExplanation
from kframework.scheduler.cooperative import run_to_end
from kframework.simulation.display import PodExplanation, Table
from kframework.simulation.records import bindings_table, decisions_table

R = TypeVar("R", Decision, Binding)


class Recording:
    """A recording file; `plugins` are those of it that are not installed.

    Each method reads the file again. Raises InputError if it is not a recording, ConfigError if a method needs missing
    plugins.
    """

    def __init__(self, file: str | Path, *, plugins: Iterable[type[Plugin]] = ()) -> None:
        self.file: Path = Path(file)
        self._registry = Registry.with_plugins(*plugins)

    @property
    def decisions(self) -> Table[Decision]:
        """Every attempt that was recorded, in order."""
        return decisions_table(self._records(Decision), self._started_at)

    @property
    def bindings(self) -> Table[Binding]:
        """Every binding cycle that was recorded, in order."""
        return bindings_table(self._records(Binding), self._started_at)

    def accounts(self, kind: EngineKind[E]) -> list[msgspec.Struct]:
        """Return every account of an engine of this kind, except its Decisions, in order."""
        recorded, kinds = RecordingReader(self.file), {record.__name__: record for record in kind.accounts.values()}
        return [recorded.read(line.body, kinds[line.what]) for line in recorded if line.what in kinds]

    @property
    def _started_at(self) -> float:
        return next((line.at for line in RecordingReader(self.file)), 0.0)

    def _records(self, kind: type[R]) -> list[R]:
        recorded = RecordingReader(self.file)
        return [recorded.read(line.body, kind) for line in recorded if line.what == kind.__name__]

    def explain(self, pod: str, *, attempt: int | None = None) -> PodExplanation:
        """Explain a pod as it was right before an attempt, or in the end; a deleted pod, before its last attempt.

        It is named `name` or `namespace/name`. Raises ExplainError where nothing is known of it.
        """
        history = History()
        replay = follow(self.file, self._registry, [history])
        reached = replay.replay_until(lambda record: isinstance(record, Decision) and record.attempt == attempt)
        if attempt is not None and reached is None:
            raise ExplainError(f"{self.file}: there is no attempt {attempt} in this recording")
        namespace, _, name = pod.rpartition("/")
        key = f"{namespace or 'default'}/{name}"
        pod_info = run_to_end(find_pod(replay.engine, namespace or "default", name))
        if pod_info is not None:
            explanation = explain(replay.engine, history, pod_info)
            if isinstance(reached, Decision) and reached.uid == pod_info.uid:
                return PodExplanation(self._with_choice(explanation, reached))
            return PodExplanation(self._with_choice(explanation, explanation.last_decision))
        last = next((each.attempt for each in history.recent(history.max_records) if each.pod == key), None)
        if attempt is None and last is not None:
            return self.explain(pod, attempt=last)
        when = "this recording" if attempt is None else f"this recording before attempt {attempt}"
        raise ExplainError(f"{self.file}: the scheduler does not know pod {key} in {when}")

    def _with_choice(self, explanation: Explanation, decision: Decision | None) -> Explanation:
        """Replace the choice by that of the state right before the decision, if the recording has that."""
        if decision is None or not decision.node or explanation.node not in (decision.node, ""):
            return explanation
        replay = follow(self.file, self._registry)
        reached = replay.replay_until(
            lambda record: isinstance(record, Decision) and record.attempt == decision.attempt
        )
        pod = replay.engine.pending.get(decision.uid)
        if reached is None or pod is None:
            return explanation
        return msgspec.structs.replace(explanation, choice=explain_decision(replay.engine, pod, decision))

    def explain_by(self, kind: EngineKind[E], namespace: str, name: str) -> EngineExplanation:
        """Explain an object at the end of the recording, by its kind of engine; ExplainError if unknown."""
        replay = self.replay_to(kind)
        accounts = list(replay)
        if replay.difference is not None:
            raise ExplainError(f"{self.file}: the replay differs: {replay.difference}")
        return kind.explain(replay.engine, accounts[::-1], namespace, name)

    def replay(self) -> ReplayResult:
        """Let the engine decide again, up to the first different decision."""
        return replay(self.file, self._registry)

    def replay_to(self, kind: EngineKind[E], *, observers: Iterable[Observer] = ()) -> Replay[E]:
        """Return a strict replay to an engine of this kind, at the beginning of the recording."""
        return Replay(RecordingReader(self.file), kind, observers=observers)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return every attempt as a dictionary."""
        return self.decisions.to_dicts()

    def _repr_html_(self) -> str:
        return self.decisions._repr_html_()
