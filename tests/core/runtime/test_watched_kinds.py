"""What the plugins need to see, and what is wrong with what they ask for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeVar

import pytest

from kframework import ActionType, ClusterEvent, ConfigError, EventResource, Plugin, Watch, unschedulable
from kframework.core import plugin_handle
from kframework.core.host import Host
from kframework.core.plugin_handle import PluginHandle
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import Profiles, watched_kinds
from kframework.framework.events import event_resource
from kframework.objects import (
    ApiObject,
    DeviceTaintRule,
    Namespace,
    Node,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ResourceSlice,
    StorageClass,
    kind_of,
)
from kframework.state.objects import ObjectStore
from kframework.testing import Scenario, create, make_node, make_pod, stub_handle
from tests.extension_points.scripted import plugin, profile, run
from tests.support.declared_kinds import Quota, Team
from tests.support.storage import claim, claim_volumes, storage_class, volume

T = TypeVar("T", bound=ApiObject)


def watching(name: str, *watches: Watch, events: list[ClusterEvent] | None = None) -> type[Plugin]:
    made = plugin(name, filter=unschedulable("no"), events=events or [])
    made.watches = watches
    return made


def kinds_of(*plugins: type[Plugin]) -> list[type[ApiObject]]:
    return watched_kinds(Profiles({"default-scheduler": profile(*plugins)}))


@pytest.mark.parametrize(
    ("watches", "kinds"),
    [
        ((), [Node, Pod]),
        ((Watch(Namespace), Watch(Pod), Watch(StorageClass)), [Node, Pod, Namespace, StorageClass]),
        ((Watch(Team), Watch(Namespace), Watch(Team, verbs=("patch",))), [Node, Pod, Team, Namespace]),
    ],
)
def test_watched_kinds_are_pods_nodes_and_those_of_plugins(
    watches: tuple[Watch, ...], kinds: list[type[ApiObject]]
) -> None:
    assert kinds_of(watching("A", *watches)) == kinds


def test_kind_with_a_feature_gate_is_watched_if_that_is_on() -> None:
    watches = (Watch(Quota, gate="DRADeviceTaintRules"), Watch(Team, gate="DRADerivedAttributes"))
    profiles = Profiles({"default-scheduler": profile(watching("A", *watches))})
    for _, each in profiles.plugins():
        each.handle = stub_handle()
    assert watched_kinds(profiles) == [Node, Pod, Quota]


def test_watched_kinds_of_all_plugins_are_collected() -> None:
    plugins = watching("A", Watch(Quota)), watching("B", Watch(Team), Watch(Quota))
    assert kinds_of(*plugins) == [Node, Pod, Quota, Team]


class Undeclared(ApiObject, frozen=True, kw_only=True):
    """A struct that is not declared a kind."""


@pytest.mark.parametrize(("kind", "named"), [(Undeclared, "Undeclared"), ("teams", "'teams'")])
def test_watch_of_an_unknown_kind_is_a_config_error(kind: type[ApiObject], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(watching("A", Watch(kind)))
    assert str(refused.value) == (
        f"plugin 'A' watches {named}, which is not a kind: use a struct of kframework.objects, "
        "or declare one with @kind"
    )


@pytest.mark.parametrize(("verb", "hint"), [("delet", " (did you mean 'delete'?)"), ("list", "")])
def test_watch_with_an_unknown_verb_is_a_config_error(verb: Any, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(watching("A", Watch(Team, verbs=(verb,))))
    known = "supported besides list and watch: get, create, patch, patch_status, delete"
    assert str(refused.value) == f"plugin 'A' watches Team with the verb {verb!r}; {known}{hint}"


@pytest.mark.parametrize("resource", ["team.v1beta1.example.com", "Team", "teams.v1beta1.example.com", "pods"])
def test_events_of_an_unwatched_kind_are_a_config_error(resource: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(watching("A", events=[ClusterEvent(resource, ActionType.ADD)]))
    assert f"plugin 'A' registers events on {resource!r}, a kind that no plugin watches" in str(refused.value)


def test_misspelt_event_resource_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'teams\.v1beta1\.example\.com'\?"):
        run(watching("A", Watch(Team), events=[ClusterEvent("teams.v1.example.com", ActionType.ADD)]))


@pytest.mark.parametrize("resource", [*EventResource, "teams.v1beta1.example.com"])
def test_events_of_known_kinds_are_accepted(resource: str) -> None:
    """Of kube-scheduler's own kinds too, whether anybody watches them or not."""
    kinds_of(watching("A", Watch(Team), events=[ClusterEvent(resource, ActionType.ADD)]))


class Noting(PluginHandle):
    """A handle that notes which stores its plugin looks at."""

    looked_at: defaultdict[str, set[type[ApiObject]]]

    def __init__(self, engine: PodEngine, host: Host, profile: str, plugin: str) -> None:
        super().__init__(engine, host, profile, plugin)
        self._plugin = plugin

    def objects(self, kind: type[T]) -> ObjectStore[T]:
        self.looked_at[self._plugin].add(kind)
        return super().objects(kind)


OWNERS = (("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))

HARD_DEFAULTS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: example.com/rack, whenUnsatisfiable: DoNotSchedule}]
"""


def test_built_in_plugins_read_exactly_the_kinds_they_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_handle, "PluginHandle", Noting)
    Noting.looked_at = defaultdict(set)
    owners = [OwnerReference(api_version=version, kind=kind, name="web", controller=True) for version, kind in OWNERS]
    scenario = Scenario(
        nodes=[make_node("a", labels={"example.com/rack": "1"})],
        pods=[
            make_pod("stored", volumes=claim_volumes("data")),
            *(make_pod(f"owned-{number}", owner=owner) for number, owner in enumerate(owners)),
        ],
        objects=[storage_class(), volume(), claim()],
        config=HARD_DEFAULTS,
    )
    # The second pod finds the claim bound, so its volume is looked at.
    result = scenario.at(5, create(make_pod("again", volumes=claim_volumes("data")))).run()
    assert [result.state_of(name) for name in ("stored", "again")] == ["bound", "bound"]
    watched = {plugin.name: {watch.kind for watch in plugin.watches} for plugin in result.plugins.values()}
    # The budgets, and the pods that it sends away, are looked at by the evaluator.
    assert watched.pop("DefaultPreemption") == {PodDisruptionBudget, Pod}
    # Slices, rules and groups are looked at once a pod has claims; of pods it only writes the status.
    unread = watched["DynamicResources"] - Noting.looked_at["DynamicResources"]
    assert unread == {DeviceTaintRule, ResourceSlice, PodGroup, Pod}
    del watched["DynamicResources"], Noting.looked_at["DynamicResources"]
    assert {name: kinds for name, kinds in watched.items() if kinds} == Noting.looked_at


def test_built_in_plugins_watch_the_kinds_of_their_events() -> None:
    result = Scenario(config=HARD_DEFAULTS).run()
    always = {EventResource.POD, EventResource.ASSIGNED_POD, EventResource.TARGET_POD, EventResource.NODE}
    for each in result.plugins.values():
        own = {event_resource(kind_of(watch.kind)) for watch in each.watches}
        events: list[ClusterEvent] = getattr(each, "events_to_register", list)()
        not_built = {event.resource for event in events if event.resource.startswith("resource.k8s.io/")}
        assert {event.resource for event in events} - always - not_built <= own, each
