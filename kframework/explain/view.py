"""What the page and a report show of the engine that schedules one pod at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kframework.core.pod_engine import PodEngine
from kframework.core.queue.pool import PluginKey
from kframework.observe.web.sections import DetailView, Section
from kframework.observe.web.shadows import shadow_sections
from kframework.observe.web.view import BINDING, EngineView, PodView, creation_time
from kframework.state.pods import PodInfo, QueuedPod

#: The number of nodes evaluated in all for the explanations of a report, after the first few: each evaluates all
#: nodes.
_MAX_EVALUATIONS, _MIN_EXPLANATIONS = 50_000, 10


class PodEngineView(EngineView[PodEngine]):
    """Shows the pods by the queue that they wait in; to show the first of many costs only these."""

    def count_by_queue(self) -> Mapping[str, int]:
        return {**self.engine.queue.count_by_queue(), BINDING: len(self.engine.cluster.waiting)}

    def pods_in(self, queue: str) -> Iterable[PodView]:
        if queue in self.engine.queue.count_by_queue():
            return map(self._queued, self.engine.queue.pods_in(queue))
        return super().pods_in(queue) if queue == BINDING else ()

    def queue_of(self, pod: PodInfo) -> str:
        bound = self.engine.cluster.waiting.get(pod.uid) is not None
        return BINDING if bound else self.engine.queue.queue_of(pod.uid)

    def count_by_plugin(self) -> Mapping[PluginKey, int]:
        return self.engine.queue.count_by_plugin()

    def pods_held_by(self, holder: PluginKey) -> Iterable[PodView]:
        return map(self._queued, self.engine.queue.held_by(holder))

    def sections(self) -> tuple[Section, ...]:
        return shadow_sections(self.engine)

    def details(self, kind: str, name: str) -> DetailView:
        return DetailView(has_explanation=kind == "pod")

    def explanations(self, kind: str, names: Sequence[str]) -> Mapping[str, object]:
        from kframework.explain.explainer import explain_all  # a scheduler would import it before its first binding

        if kind != "pod":
            return {}
        most = max(_MIN_EXPLANATIONS, _MAX_EVALUATIONS // max(len(self.engine.cluster.nodes), 1))
        pending = {pod.key: pod for pod in self.engine.handlers.pending.values()}
        explanations = explain_all(self.engine, self.history, map(pending.__getitem__, names[:most]))
        return {each.pod: each for each in explanations}

    def _queued(self, queued: QueuedPod) -> PodView:
        queue, pod = self.engine.queue, queued.pod
        queue_name = queue.queue_of(pod.uid)
        return PodView(
            pod.key,
            queue_name,
            pod.scheduler_name,
            pod.priority,
            creation_time(pod),
            queued.timestamp,
            queued.attempts,
            plugins=(queued.gating_plugin,) if queue_name == "gated" else tuple(sorted(queued.rejectors)),
            held=queue.waits_for_event(pod.uid),
            until=queue.backoff_expires_at(queued) if queue_name == "backoff" else None,
            node=self.engine.cluster.nominator.nominated_node(pod.uid),
            message=self._message(queued, queue_name),
            group=pod.group if self.engine.cluster.feature_gates.has_pod_groups else "",
        )

    def _message(self, queued: QueuedPod, queue_name: str) -> str:
        gate = queued.gate_message if queue_name in ("gated", "incomplete") else ""
        if gate and not queued.pod.spec.scheduling_gates:
            return gate
        return self.last_message(queued.pod) or gate
