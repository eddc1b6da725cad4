"""A second engine, as small as one can be: it takes pods in, and says of each once that it is closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from kframework import Clock, PendingPod
from kframework.config.configuration import Configuration
from kframework.engine import ClusterState, Decision, Engine, Host, ProfilesFactory, Result
from kframework.objects import Node, Pod
from kframework.state.inbox import Synced, Upserted

__all__ = ["ClosedEngine"]


class ClosedEngine(Engine):
    """Schedules no pods."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock,
        host: Host,
        extenders: object,
        profiles: ProfilesFactory,
    ) -> None:
        super().__init__(ClusterState(), clock, host, seed=0)
        self._waiting: dict[str, PendingPod] = {}
        self._decided = 0
        self.profiles = profiles(self)

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        return self._waiting

    @property
    def preemption(self) -> NoReturn:
        raise RuntimeError("nobody is preempted")

    @property
    def deadline(self) -> None:
        return None

    @property
    def is_idle(self) -> bool:
        return self.synced and not len(self.inbox)

    def retried_pods(self) -> tuple[str, ...]:
        return ()

    def apply_messages(self) -> None:
        for message in self.inbox.drain():
            match message:
                case Upserted(Node() as node):
                    self.cluster.put_node(node)
                case Upserted(Pod() as pod) if pod.spec.node_name:
                    self.cluster.put_pod(pod)
                case Upserted(Pod() as pod):
                    self._waiting[pod.metadata.uid] = PendingPod(pod, self.cluster.interner)
                case Synced():
                    self.synced = True
                case _:
                    pass

    def step(self) -> bool:
        self.apply_messages()
        for pod in list(self._waiting.values())[self._decided :]:
            self._decided += 1
            now = self.clock.now()
            self.host.report_decision(
                Decision(
                    attempt=self._decided,
                    pod_attempts=1,
                    pod=pod.key,
                    uid=pod.uid,
                    profile=pod.scheduler_name,
                    queued_at=now,
                    popped_at=now,
                    result=Result.UNSCHEDULABLE,
                    message="closed today",
                )
            )
        return False
