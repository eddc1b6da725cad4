"""A cluster under the default profile, stepped by hand, in which pods are explained."""

from __future__ import annotations

from kframework.clock import VIRTUAL_EPOCH
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse
from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.explain.explainer import explain
from kframework.explain.explanation import Assessment, Explanation
from kframework.explain.lookup import find_pod
from kframework.objects import ApiObject, Pod
from kframework.observe.history import History
from kframework.scheduler.cooperative import run_to_end
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import Synced, Upserted
from kframework.testing import make_pod

__all__ = ["Scene"]


class Scene(Host):
    """An engine on a clock that does not move, and its decisions."""

    def __init__(self, *objects: ApiObject, configuration: str = "", registry: Registry | None = None) -> None:
        self.time = VIRTUAL_EPOCH
        self.history = History()
        self.bindings: list[Reservation] = []
        self.evictions: list[Eviction] = []
        read: Configuration = parse(configuration, "test.yaml") if configuration else default_configuration()
        profiles = profiles_factory(read, registry or Registry.from_installed(), self)
        self.engine: PodEngine = PodEngine.from_configuration(read, self, self, Extenders(), profiles)
        for obj in objects:
            self.engine.offer(Upserted(obj))
        self.engine.offer(Synced())

    def now(self) -> float:
        return self.time

    def report_decision(self, decision: Decision) -> None:
        self.history.on_decision(decision)

    def bind(self, reservation: Reservation) -> None:
        self.bindings.append(reservation)

    def evict(self, eviction: Eviction) -> None:
        self.evictions.append(eviction)

    def settle(self) -> Scene:
        """Step until there is no pod."""
        while self.engine.step():
            pass
        return self

    def explain(self, name: str, whole: Pod | None = None) -> Explanation:
        pod = run_to_end(find_pod(self.engine, "default", name))
        assert pod is not None, f"pod {name} is not known"
        return explain(self.engine, self.history, pod, whole)

    def pending(self, name: str = "pod", *, cpu: int | str = "100m") -> Assessment:
        """Explain a pod that has just arrived."""
        self.engine.offer(Upserted(make_pod(name, cpu=cpu)))
        self.engine.apply_messages()
        return self.explain(name).assessment
