"""A handle for tests of one hook: it shows what it is given, and remembers what it was asked to do.

    handle = stub_handle(pods=[make_pod("held")])
    Mine(MineArgs(), handle).post_bind(CycleState(), pending_pod(make_pod("last")), "node")
    assert [pod.name for pod in handle.activated] == ["held"]

Tables, what-ifs and the Filter plugins that `fits` calls are those of a real engine with the default profile. Dry runs
of preemption need a running cycle, so a Scenario.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping

from kframework.config.load import parse
from kframework.core.host import Host, PodEvent
from kframework.core.plugin_handle import PluginHandle, profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import filter_node, run_pre_filter_point
from kframework.core.runtime.registry import Registry
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Api
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.read_only import read_only
from kframework.state.inbox import Upserted
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.waiting import ReservedPod
from kframework.testing.builders import cluster_state
from kframework.testing.single_plugin import PROFILE, StoppedClock, format_profile
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import Status

#: How long waiting pods wait: the longest that Permit allows, in seconds.
_PERMIT_TIMEOUT = 900.0


class StubClock(StoppedClock):
    """A clock that a test advances, from the start of virtual time."""

    def advance(self, seconds: float) -> None:
        """Advance the clock by this number of seconds."""
        self._moment += seconds


class StubHandle(PluginHandle):
    """A plugin's handle without side effects, which records its calls in order.

    `activated` and `nominated` hold pods (with the name of the node), `invalidated` the names of each call (none: all
    nodes), `events` the events of pods, `spawned` coroutines, which a test may await.
    """

    def __init__(self, engine: PodEngine, clock: StubClock, api: Api | None) -> None:
        super().__init__(engine, Host(), PROFILE, "stub")
        self._clock = clock
        self._api = api
        self.activated: list[PodInfo] = []
        self.nominated: list[tuple[PodInfo, str]] = []
        self.invalidated: list[tuple[str, ...]] = []
        self.events: list[PodEvent] = []
        self.spawned: list[Coroutine[object, object, None]] = []

    @property
    def clock(self) -> StubClock:
        return self._clock

    @property
    def api(self) -> Api:
        return self._api if self._api is not None else super().api

    def fits(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        profile, prepared = self._engine.profiles[PROFILE], state.clone()
        result = run_pre_filter_point(profile, prepared, pod, node.table)
        filters = [step for step in profile.filters if step.name not in result.skipped]
        return result.status or filter_node(filters, prepared, pod, node)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self.activated.extend(pods)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        self.nominated.append((pod, node_name))

    def invalidate(self, *node_names: str) -> None:
        self.invalidated.append(node_names)

    def event(self, pod: PodInfo, *, reason: str, action: str, note: str, warning: bool = False) -> None:
        self.events.append(PodEvent(self.profile_name, pod, reason, action, note, warning))

    def spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        self.spawned.append(coroutine)

    def __del__(self) -> None:
        for coroutine in self.spawned:
            coroutine.close()  # a test need not await it


def stub_handle(
    *,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[ApiObject] = (),
    waiting: Mapping[str, Iterable[Pod]] | None = None,
    api: Api | None = None,
    feature_gates: FeatureGates = DEFAULT_GATES,
) -> StubHandle:
    """Make a handle of a plugin that sees these nodes, pods (on the nodes they name, or pending) and other objects.

    `waiting` has the pods that wait at Permit, by the plugin that they wait for, each with the node it is reserved on.
    `api` is the plugin's API; without it, the attribute raises an error.
    """
    pods, clock = list(pods), StubClock()
    configuration = parse(format_profile({}, {}), "stub_handle")
    state = cluster_state(nodes, [pod for pod in pods if pod.spec.node_name], feature_gates)
    engine = PodEngine(state, clock, Host(), profiles_factory(configuration, Registry.from_installed(), Host()))
    for obj in (*objects, *(pod for pod in pods if not pod.spec.node_name)):
        engine.offer(Upserted(read_only(obj)))
    engine.apply_messages()
    for plugin, reserved in (waiting or {}).items():
        for pod in reserved:
            pending, node_name = PendingPod(read_only(pod), state.interner), pod.spec.node_name
            state.assume(pending, node_name)
            state.waiting.add(ReservedPod(pending, node_name, {plugin: clock.now() + _PERMIT_TIMEOUT}, clock.now()))
    return StubHandle(engine, clock, api)
