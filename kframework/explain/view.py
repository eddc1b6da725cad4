"""What is shown of the engine that schedules one pod at a time: its queues, who holds pods back, explanations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kframework.core.pod_engine import PodEngine
from kframework.core.queue.pool import Holder
from kframework.explain.account import explain
from kframework.observe.web.sections import Details
from kframework.observe.web.shown import BINDING, Shown, ShownPod, created
from kframework.state.pods import PodInfo
from kframework.state.queued_pod import QueuedPod

#: So many nodes are asked about in all for the explanations of a report, but for the first few of these: each asks
#: about all nodes.
_ASKED, _EXPLAINED = 50_000, 10


class PodEngineShown(Shown[PodEngine]):
    """Shows the pods by the queue that they wait in; to show the first of many costs only these."""

    def places(self) -> Mapping[str, int]:
        return {**self.engine.queue.pending(), BINDING: len(self.engine.cluster.waiting)}

    def waiting(self, place: str) -> Iterable[ShownPod]:
        if place in self.engine.queue.pending():
            return map(self._queued, self.engine.queue.waiting(place))
        return super().waiting(place) if place == BINDING else ()

    def place_of(self, pod: PodInfo) -> str:
        bound = self.engine.cluster.waiting.get(pod.uid) is not None
        return BINDING if bound else self.engine.queue.place_of(pod.uid)

    def holders(self) -> Mapping[Holder, int]:
        return self.engine.queue.holders()

    def held_by(self, holder: Holder) -> Iterable[ShownPod]:
        return map(self._queued, self.engine.queue.held_by(holder))

    def details(self, sort: str, name: str) -> Details:
        return Details(explained=sort == "pod")

    def explanations(self, sort: str, names: Sequence[str]) -> Mapping[str, object]:
        if sort != "pod":
            return {}
        most = max(_EXPLAINED, _ASKED // max(len(self.engine.cluster.nodes), 1))
        pending = {pod.key: pod for pod in self.engine.handlers.pending.values()}
        return {name: explain(self.engine, self.history, pending[name]) for name in names[:most]}

    def _queued(self, queued: QueuedPod) -> ShownPod:
        queue, pod = self.engine.queue, queued.pod
        place = queue.place_of(pod.uid)
        return ShownPod(
            pod.key,
            place,
            pod.scheduler_name,
            pod.priority,
            created(pod),
            queued.timestamp,
            queued.attempts,
            plugins=(queued.gating_plugin,) if place == "gated" else tuple(sorted(queued.rejectors)),
            held=queue.dormant(pod.uid),
            until=queue.resting_until(queued) if place == "backoff" else None,
            node=self.engine.cluster.nominator.node_of(pod.uid),
            message=self.last_message(pod),
        )
