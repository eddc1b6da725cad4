"""Profiles are compiled from a configuration; what is wrong is said with file, line and distribution."""

from __future__ import annotations

import pytest

from kframework import ActionType, ConfigError, Handle, Plugin, PluginArgs, unschedulable
from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.core.host import Host
from kframework.core.plugin_handle import PluginHandle
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import Profiles, compile_profiles
from kframework.core.runtime.registry import Offer, Registry
from kframework.framework.events import ClusterEvent, EventResource, Hint, ObservedEvent, QueueingHint
from kframework.plugins.node_resources_fit.args import NodeResourcesFitArgs
from kframework.state.cluster import ClusterState
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing import make_pod
from tests.extension_points.scripted import alone, plugin, profile

FIRST = "k.yaml:7: profiles[0].plugins.multiPoint.enabled[0].name: "
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"


#: An engine that schedules nothing, behind the handles.
ENGINE = PodEngine(
    ClusterState(),
    SystemClock(),
    Host(),
    lambda engine: Profiles({"default-scheduler": profile()}),
    verifying=False,
)


def a_handle(profile: str, plugin: str) -> Handle:
    return PluginHandle(ENGINE, Host(), profile, plugin)


def compiled(text: str, *plugins: type[Plugin]) -> Profiles:
    return compile_profiles(parse(text, "k.yaml"), offering(*plugins), a_handle)


def offering(*plugins: type[Plugin]) -> Registry:
    """Offer the installed plugins, and these by the distribution `acme 1.0`."""
    installed = Registry.from_installed()
    offers = [offer for name in installed for offer in installed.offers(name)]

    def load(plugin: type[Plugin]) -> Offer:
        return Offer(plugin.name, lambda: plugin, "acme 1.0", f"acme:{plugin.name}")

    return Registry([*offers, *map(load, plugins)])


def enabling(name: str, point: str = "multiPoint", args: str = "") -> str:
    config = f"  pluginConfig:\n  - name: {name}\n    args: {args}\n" if args else ""
    return f"{HEAD}- plugins:\n    {point}:\n      enabled:\n      - name: {name}\n{config}"


class Unmakable(Plugin):
    name = "Unmakable"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        raise OSError("no licence")


@pytest.mark.parametrize(
    ("text", "plugins", "message"),
    [
        (
            enabling("RarestPod"),
            [plugin("RarestPods", score=0)],
            FIRST,
        ),
        (
            enabling("Wrong", "filter"),
            [plugin("Wrong", filter_nodes=0)],
            "k.yaml:7: profiles[0].plugins.filter.enabled[0].name: plugin 'Wrong' (from acme 1.0), hook filter_nodes: ",
        ),
        (
            enabling("Unmakable"),
            [type("Scoring", (Unmakable, plugin("Unmakable", score=0)), {})],
            f"{FIRST}plugin 'Unmakable' (from acme 1.0): cannot be created: OSError: no licence",
        ),
        (
            enabling("Plain", args="{colour: red}"),
            [plugin("Plain", score=0)],
            "k.yaml:10: profiles[0].pluginConfig[0].args.colour: ",
        ),
        (
            enabling("Filtering", "score"),
            [plugin("Filtering", filter=None)],
            "k.yaml:7: profiles[0].plugins.score.enabled[0].name: ",
        ),
    ],
)
def test_plugin_errors_have_their_location_in_the_file(text: str, plugins: list[type[Plugin]], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(text, *plugins)
    assert str(caught.value).startswith(message)


def test_error_for_a_name_of_two_distributions_names_both() -> None:
    clash = plugin("Clash", score=0)
    claims = [Offer("Clash", lambda: clash, source, f"{source[:4]}:Clash") for source in ("beta 2.0", "acme 1.0")]
    installed = [offer for name in Registry.from_installed() for offer in Registry.from_installed().offers(name)]
    with pytest.raises(ConfigError) as caught:
        compile_profiles(parse(enabling("Clash"), "k.yaml"), Registry([*installed, *claims]), a_handle)
    assert str(caught.value) == (
        "k.yaml:7: profiles[0].plugins.multiPoint.enabled[0].name: plugin 'Clash': "
        "several distributions offer the name: acme 1.0 (acme:Clash) and beta 2.0 (beta:Clash); uninstall one"
    )


def test_unknown_plugin_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'RarestPods'"):
        compiled(enabling("RarestPod"), plugin("RarestPods", score=0))


def test_invalid_args_of_all_profiles_are_reported_together() -> None:
    args = "[{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}, {name: NodeAffinity, args: {added: {}}}]"
    off = "{multiPoint: {disabled: [{name: VolumeBinding}]}}"
    text = (
        f"{HEAD}- schedulerName: one\n  pluginConfig: {args}\n"
        f"- schedulerName: two\n  plugins: {off}\n"
        "  pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        compiled(text)
    assert [line.partition(": ")[2].partition(": ")[0] for line in str(caught.value).splitlines()] == [
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight",
        "profiles[0].pluginConfig[1].args.added",
        "profiles[1].pluginConfig[0].args.bindTimeoutSeconds",
    ]


def test_fit_ignores_resources_managed_by_extenders() -> None:
    extenders = "extenders: [{managedResources: [{name: x.y/a, ignoredByScheduler: true}]}]"
    fit = compiled(f"{HEAD}- schedulerName: one\n{extenders}\n")["one"].plugins["NodeResourcesFit"]
    assert isinstance(fit.args, NodeResourcesFitArgs)
    assert fit.args.ignored_resources == ("x.y/a",)


def test_unused_plugins_are_not_imported() -> None:
    def load() -> object:
        raise AssertionError("it was imported")

    registry = Registry([*offering().offers("PrioritySort"), *offering().offers("DefaultBinder"), Offer("Idle", load)])
    profiles = compile_profiles(parse(alone(), "k.yaml"), registry, a_handle)
    assert profiles["default-scheduler"].plugins.keys() == {"PrioritySort", "DefaultBinder"}


TWO = f"""{HEAD}- schedulerName: one
  percentageOfNodesToScore: 30
  plugins:
    multiPoint:
      disabled: [{{name: "*"}}]
      enabled: [{{name: PrioritySort}}, {{name: Gate}}, {{name: DefaultBinder}}]
- schedulerName: two
  plugins:
    multiPoint:
      disabled: [{{name: "*"}}]
      enabled: [{{name: PrioritySort}}, {{name: DefaultBinder}}]
"""
NODE_ADD = ClusterEvent("Node", ActionType.ADD)
GATE = plugin("Gate", pre_enqueue=unschedulable("closed"), filter=None, events=[NODE_ADD])


def test_each_profile_has_its_own_plugin_instances() -> None:
    handles: list[tuple[str, str]] = []

    def handle(profile: str, plugin: str) -> Handle:
        handles.append((profile, plugin))
        return a_handle(profile, plugin)

    profiles = compile_profiles(parse(TWO, "k.yaml"), offering(GATE), handle)
    assert list(profiles) == ["one", "two"] and len(profiles) == 2
    assert sorted(handles) == [
        ("one", "DefaultBinder"),
        ("one", "Gate"),
        ("one", "PrioritySort"),
        ("two", "DefaultBinder"),
        ("two", "PrioritySort"),
    ]
    assert profiles["one"].plugins["DefaultBinder"] is not profiles["two"].plugins["DefaultBinder"]
    assert [(profile.name, plugin.name) for profile, plugin in profiles.plugins()] == handles
    assert profiles["one"].percentage_of_nodes_to_score == 30
    assert profiles["two"].percentage_of_nodes_to_score == 0


@pytest.fixture
def two() -> Profiles:
    return compiled(TWO, GATE)


def pending(scheduler: str, **fields: int) -> PendingPod:
    return PendingPod(make_pod(scheduler_name=scheduler, **fields), TemplateInterner())  # type: ignore[arg-type]  # the priority


def test_pod_is_gated_by_its_own_profile(two: Profiles) -> None:
    status = two.run_pre_enqueue(pending("one"))
    assert status is not None and (status.plugin, status.message) == ("Gate", "closed")
    assert two.run_pre_enqueue(pending("two")) is None


def test_event_requeues_pods_of_the_profile_that_registered_it(two: Profiles) -> None:
    added = ObservedEvent("Node", ActionType.ADD)
    removed = ObservedEvent("Node", ActionType.DELETE)
    everything = ObservedEvent("*", ActionType.ALL)
    assert ("one", "Gate") in two.registered_for(added) and ("one", "Gate") not in two.registered_for(removed)
    assert not two.registered_for(everything)
    assert two.is_worth_requeuing(added, pending("one"), "Gate")
    assert not two.is_worth_requeuing(removed, pending("one"), "Gate")
    assert not two.is_worth_requeuing(added, pending("two"), "Gate")


def only_node_b(pod: PendingPod, old: object, new: object) -> QueueingHint:
    assert pod.name == "pod" and old is None
    return QueueingHint.QUEUE if new == "b" else QueueingHint.SKIP


def raising(pod: PendingPod, old: object, new: object) -> QueueingHint:
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("hints", "wakes", "logged"),
    [
        ([None], True, ""),
        ([only_node_b], False, ""),
        ([only_node_b, None], True, ""),
        ([lambda pod, old, new: QueueingHint.QUEUE], True, ""),
        ([lambda pod, old, new: True], True, "answered True, which is not a QueueingHint"),
        ([raising], True, "LookupError: no such thing"),
    ],
)
def test_hints_decide_whether_a_pod_is_requeued(
    hints: list[Hint | None], wakes: bool, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    events = [ClusterEvent("Node", ActionType.ADD, hint) for hint in hints]
    profiles = compiled(enabling("Gate"), plugin("Gate", pre_enqueue=unschedulable("closed"), events=events))
    added = ObservedEvent("Node", ActionType.ADD, None, "a")
    assert profiles.is_worth_requeuing(added, pending("default-scheduler"), "Gate") is wakes
    assert profiles.is_worth_requeuing(
        ObservedEvent("Node", ActionType.ADD, None, "b"), pending("default-scheduler"), "Gate"
    )
    assert not profiles.is_worth_requeuing(
        ObservedEvent("Node", ActionType.DELETE, "a"), pending("default-scheduler"), "Gate"
    )
    assert logged in caplog.text and bool(logged) == bool(caplog.records)


def test_first_profile_sorts_the_queue(two: Profiles) -> None:
    low, high = QueuedPod(pending("two", priority=1), 5.0), QueuedPod(pending("one", priority=2), 6.0)
    assert sorted([low, high], key=two.sort_key) == [high, low]  # type: ignore[arg-type]  # the keys compare


def test_pods_without_sort_key_come_last() -> None:
    failing = plugin("Failing", queue_sort=ValueError("no key"))
    profiles = compiled(alone(failing), failing)
    early, late = QueuedPod(pending("default-scheduler"), 5.0), QueuedPod(pending("default-scheduler"), 6.0)
    assert profiles.sort_key(early) == (1, 5.0) and profiles.sort_key(late) == (1, 6.0)


@pytest.mark.parametrize(("extenders", "woken"), [("", False), ("extenders: [{filterVerb: f}]", True)])
def test_any_event_requeues_pods_rejected_by_an_extender(extenders: str, woken: bool) -> None:
    profiles = compile_profiles(parse(f"{alone()}\n{extenders}\n", "k.yaml"), Registry.from_installed(), a_handle)
    (name,) = profiles
    interested = {
        (resource, action): (name, "Extender") in profiles.registered_for(ObservedEvent(resource, action))
        for resource, action in (
            (EventResource.NODE, ActionType.ADD),
            (EventResource.ASSIGNED_POD, ActionType.DELETE),
            (EventResource.STORAGE_CLASS, ActionType.UPDATE),
            (EventResource.NAMESPACE, ActionType.ADD),
        )
    }
    assert list(interested.values()) == [woken, woken, woken, False]
    pod = PendingPod(make_pod(), TemplateInterner())
    assert profiles.is_worth_requeuing(ObservedEvent(EventResource.NODE, ActionType.ADD), pod, "Extender") == woken
