"""SelectorSpread, asked as the scheduler asks it, and compared with its rules written slowly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_selector_spread import SelectorSpread

from kframework import CycleState, Handle, NodeInfo, PendingPod, PluginArgs, hookimpl
from kframework.objects import (
    ApiObject,
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    Service,
    TopologySpreadConstraint,
)
from kframework.testing import (
    PluginContract,
    Scenario,
    ScenarioResult,
    check_plugin,
    create,
    delete,
    make_node,
    make_pod,
    patch,
)
from tests.support.selectors import owner, replica_set, replication_controller, service, stateful_set

BETA, STABLE = "failure-domain.beta.kubernetes.io", "topology.kubernetes.io"
WEB = {"app": "web"}

#: Nothing scores but SelectorSpread, so that totals are its own.
ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      score: {enabled: [{name: SelectorSpread, weight: 1}], disabled: [{name: "*"}]}
      preScore: {enabled: [{name: SelectorSpread}], disabled: [{name: "*"}]}
"""

#: As configurations of older schedulers enable it.
AT_SCORE = ALONE.replace("enabled: [{name: SelectorSpread}], ", "")


def running(counts: Mapping[str, int], **pod: object) -> list[Pod]:
    """Create this number of pods on each node."""
    return [
        make_pod(f"old-{node}-{number}", node_name=node, **{"labels": WEB, **pod})  # type: ignore[arg-type]  # as given
        for node, count in counts.items()
        for number in range(count)
    ]


def totals(
    nodes: Sequence[Node], pods: Sequence[Pod], objects: Sequence[ApiObject], pod: Pod, config: str = ALONE
) -> dict[str, int]:
    """Return the score of each node for the pod; the scheduler tells of the best three."""
    assert len(nodes) <= 3
    result = Scenario(nodes=nodes, pods=[*pods, pod], objects=objects, plugins=[SelectorSpread], config=config).run()
    (decision,) = result.decisions_on(pod.metadata.name)
    return dict(decision.best_nodes)


NODES = [make_node("a"), make_node("b"), make_node("c")]


def test_node_with_fewer_pods_of_the_service_scores_higher() -> None:
    assert totals(NODES, running({"a": 4, "b": 1}), [service(WEB)], make_pod("new", labels=WEB)) == {
        "a": 0,
        "b": 75,
        "c": 100,
    }


@pytest.mark.parametrize(
    "other",
    [{"labels": {"app": "db"}}, {"namespace": "elsewhere"}, {"deletion_timestamp": "2026-01-01T00:00:30Z"}],
    ids=["other labels", "another namespace", "being deleted"],
)
def test_other_pods_do_not_count(other: Mapping[str, object]) -> None:
    pods = running({"a": 3}, **other)
    assert set(totals(NODES, pods, [service(WEB)], make_pod("new", labels=WEB)).values()) == {100}


def test_pod_without_service_or_controller_is_not_spread() -> None:
    assert set(totals(NODES, running({"a": 3}), [], make_pod("new", labels=WEB)).values()) == {100}


def test_service_without_selector_selects_no_pods() -> None:
    silent = Service(metadata=ObjectMeta(name="web", namespace="default"))
    assert set(totals(NODES, running({"a": 3}), [silent], make_pod("new", labels=WEB)).values()) == {100}


def test_service_of_another_namespace_does_not_count() -> None:
    elsewhere = service(WEB, ObjectMeta(name="web", namespace="elsewhere"))
    assert set(totals(NODES, running({"a": 3}), [elsewhere], make_pod("new", labels=WEB)).values()) == {100}


def test_selectors_of_several_services_are_merged() -> None:
    both, pods = {**WEB, "tier": "front"}, running({"a": 2}) + running({"b": 1}, labels={**WEB, "tier": "front"})
    services = [service(WEB), service({"tier": "front"}, ObjectMeta(name="front", namespace="default"))]
    assert totals(NODES, pods, services, make_pod("new", labels=both)) == {"a": 100, "b": 0, "c": 100}


def label_selector(*expressions: Mapping[str, object]) -> LabelSelector:
    return msgspec.convert({"matchExpressions": expressions}, LabelSelector)


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        (LabelSelector(match_labels=WEB), WEB, {"app": "db"}),
        (label_selector({"key": "app", "operator": "In", "values": ["web", "x"]}), {"app": "x"}, {"app": "db"}),
        (label_selector({"key": "app", "operator": "NotIn", "values": ["db"]}), {}, {"app": "db"}),
        (label_selector({"key": "app", "operator": "Exists"}), {"app": "db"}, {"tier": "front"}),
        (label_selector({"key": "tier", "operator": "DoesNotExist"}), {"app": "db"}, {"tier": "front"}),
    ],
    ids=["labels", "In", "NotIn", "Exists", "DoesNotExist"],
)
@pytest.mark.parametrize("controller", [replica_set, stateful_set])
def test_selector_of_the_controller_counts(
    controller: Callable[[LabelSelector], ApiObject],
    selector: LabelSelector,
    matching: Mapping[str, str],
    other: Mapping[str, str],
) -> None:
    controls = controller(selector)
    pods = running({"a": 2}, labels=matching) + running({"b": 5}, labels=other)
    pod = make_pod("new", labels=WEB, owner=owner(type(controls).__name__))
    assert totals(NODES, pods, [controls], pod) == {"a": 0, "b": 100, "c": 100}


def test_selector_of_a_replication_controller_is_merged_with_services() -> None:
    controller = replication_controller({"tier": "front"})
    labels = {**WEB, "tier": "front"}
    pods = running({"a": 2}) + running({"b": 1}, labels=labels)
    pod = make_pod("new", labels=labels, owner=owner("ReplicationController", "v1"))
    result = totals(NODES, pods, [service(WEB), controller], pod)
    assert result == {"a": 100, "b": 0, "c": 100}


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        (None, owner("ReplicaSet")),
        (LabelSelector(), owner("ReplicaSet")),
        (LabelSelector(match_labels=WEB), owner("ReplicaSet", "apps/v1beta1")),
        (LabelSelector(match_labels=WEB), owner("Job", "batch/v1")),
        (LabelSelector(match_labels=WEB), owner("ReplicaSet", controller=False)),
    ],
    ids=["absent", "empty", "old version", "another kind", "no controller"],
)
def test_owner_without_valid_selector_adds_nothing(selector: LabelSelector | None, said: OwnerReference) -> None:
    pod = make_pod("new", labels=WEB, owner=said)
    assert set(totals(NODES, running({"a": 3}), [replica_set(selector)], pod).values()) == {100}


def test_deleted_controller_adds_nothing() -> None:
    pod = make_pod("new", labels=WEB, owner=owner("ReplicaSet"))
    assert set(totals(NODES, running({"a": 3}), [], pod).values()) == {100}


@pytest.mark.parametrize("config", [ALONE, AT_SCORE])
def test_pod_with_topology_spread_constraints_is_skipped(config: str) -> None:
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"
    )
    pod = make_pod("new", labels=WEB, topology_spread=[spread])
    assert set(totals(NODES, running({"a": 3}), [service(WEB)], pod, config).values()) == {0}


def test_zones_weigh_two_thirds() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="x"), make_node("c", zone="y")]
    assert totals(nodes, running({"a": 3, "c": 2}), [service(WEB)], make_pod("new", labels=WEB)) == {
        "a": 0,  # 0 of the node, 0 of the zone
        "b": 33,  # 100 of the node, 0 of the zone
        "c": 33,  # 33 1/3 of the node, 33 1/3 of the zone
    }


def test_node_without_zone_keeps_its_node_score() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y"), make_node("c")]
    assert totals(nodes, running({"a": 2, "c": 4}), [service(WEB)], make_pod("new", labels=WEB)) == {
        "a": 16,  # 50 of the node, 0 of the zone
        "b": 100,
        "c": 0,
    }


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({f"{BETA}/zone": "x"}, {f"{STABLE}/zone": "x"}, True),
        ({f"{BETA}/zone": "x", f"{STABLE}/zone": "y"}, {f"{STABLE}/zone": "x"}, True),
        ({f"{BETA}/zone": "x", f"{STABLE}/region": "r"}, {f"{STABLE}/zone": "x", f"{BETA}/region": "r"}, True),
        ({f"{STABLE}/zone": "x", f"{STABLE}/region": "r"}, {f"{STABLE}/zone": "x", f"{STABLE}/region": "s"}, False),
        ({f"{STABLE}/region": "r"}, {f"{STABLE}/region": "r"}, True),
        ({f"{BETA}/zone": "", f"{STABLE}/zone": "x"}, {f"{STABLE}/zone": "x"}, False),
    ],
)
def test_zone_is_region_and_zone_label(first: Mapping[str, str], second: Mapping[str, str], together: bool) -> None:
    nodes = [make_node("a", labels=first), make_node("b", labels=second), make_node("c", zone="other")]
    result = totals(nodes, running({"a": 1}), [service(WEB)], make_pod("new", labels=WEB))
    assert result["b"] == (33 if together else 100)


def placed(result: ScenarioResult, names: Sequence[str]) -> Counter[str | None]:
    return Counter(result.node_of(name) for name in names)


def test_pods_of_a_service_spread_over_nodes_and_zones() -> None:
    nodes = [make_node(f"n{number}", zone="xyz"[number % 3]) for number in range(12)]
    pods = [make_pod(f"web-{number}", labels=WEB) for number in range(24)]
    result = Scenario(nodes=nodes, pods=pods, objects=[service(WEB)], plugins=[SelectorSpread], config=ALONE).run()
    assert set(placed(result, [pod.metadata.name for pod in pods]).values()) == {2}


def test_counts_follow_changes_of_pods_services_and_nodes() -> None:
    first, second = make_pod("first", labels=WEB, node_name="a"), make_pod("second", labels=WEB, node_name="b")
    scenario = Scenario(nodes=NODES[:2], pods=[first], objects=[service(WEB)], plugins=[SelectorSpread], config=ALONE)
    scenario.at(10, create(make_pod("goes-to-b", labels=WEB)))
    scenario.at(20, create(second))  # now b runs two of them
    scenario.at(30, create(make_pod("goes-to-a", labels=WEB)))
    scenario.at(40, patch(second, {"metadata": {"labels": {"app": "db"}}}))  # 2 : 1
    scenario.at(50, create(make_pod("to-b-again", labels=WEB)))
    scenario.at(60, delete(first))  # its grace is over 30 seconds later; from now on it does not count: 1 : 2
    scenario.at(70, create(make_pod("to-a-again", labels=WEB)))  # 2 : 2
    scenario.at(80, create(make_node("c")))
    scenario.at(90, create(make_pod("goes-to-c", labels=WEB)))
    scenario.at(100, patch(service(WEB), {"spec": {"selector": {"app": "db"}}}))
    scenario.at(110, create(make_pod("db", labels={"app": "db"})))  # only `second` counts, on b
    result = scenario.run()
    nodes = {name: result.node_of(name) for name in ("goes-to-b", "goes-to-a", "to-b-again", "to-a-again", "goes-to-c")}
    assert nodes == {"goes-to-b": "b", "goes-to-a": "a", "to-b-again": "b", "to-a-again": "a", "goes-to-c": "c"}
    assert result.node_of("db") != "b"


def test_deleted_service_does_not_count() -> None:
    scenario = Scenario(
        nodes=NODES, pods=running({"a": 3}), objects=[service(WEB)], plugins=[SelectorSpread], config=ALONE
    )
    scenario.at(10, delete(service(WEB)))
    scenario.at(20, create(make_pod("new", labels=WEB)))
    (decision,) = scenario.run().decisions_on("new")
    assert {total for _, total in decision.best_nodes} == {100}


# -- the rules, slowly -----------------------------------------------------------------------------------------------

LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}])
ZONES = st.sampled_from(["", "x", "y", "z"])


@given(
    zones=st.lists(ZONES, min_size=2, max_size=14),
    pods=st.lists(st.tuples(st.integers(0, 13), LABELS, st.sampled_from(["default", "other"])), max_size=40),
    labels=LABELS,
    services=st.lists(LABELS, max_size=3),
    config=st.sampled_from([ALONE, AT_SCORE]),
)
def test_scores_equal_those_of_the_slow_rules(
    zones: list[str],
    pods: list[tuple[int, dict[str, str], str]],
    labels: dict[str, str],
    services: list[dict[str, str]],
    config: str,
) -> None:
    nodes = [make_node(f"n{place}", zone=zone) for place, zone in enumerate(zones)]
    there = [
        make_pod(f"p{number}", namespace=namespace, labels=on, node_name=f"n{place % len(nodes)}", cpu="1m", memory=1)
        for number, (place, on, namespace) in enumerate(pods)
    ]
    objects = [
        service(selector, ObjectMeta(name=f"s{number}", namespace="default"))
        for number, selector in enumerate(services)
    ]
    new = make_pod("new", labels=labels)
    result = Scenario(nodes=nodes, pods=[*there, new], objects=objects, plugins=[SelectorSpread], config=config).run()
    (decision,) = result.decisions_on("new")
    expected = slowly(nodes, there, objects, new)
    assert decision.score == max(expected.values())
    assert decision.ties == list(expected.values()).count(decision.score)
    assert {name: expected[name] for name, _ in decision.best_nodes} == dict(decision.best_nodes)


def slowly(nodes: list[Node], pods: list[Pod], services: list[Service], new: Pod) -> dict[str, int]:
    selector: dict[str, str] = {}
    for each in services:
        service_selector = each.spec.selector or {}
        if all(new.metadata.labels.get(key) == value for key, value in service_selector.items()):
            selector.update(service_selector)
    counts = {node.metadata.name: 0 for node in nodes}
    for pod in pods:
        alike = all(pod.metadata.labels.get(key) == value for key, value in selector.items())
        if selector and alike and pod.metadata.namespace == new.metadata.namespace:
            counts[pod.spec.node_name] += 1
    zone_of = {node.metadata.name: node.metadata.labels.get(f"{STABLE}/zone", "") for node in nodes}
    by_zone: dict[str, int] = defaultdict(int)
    for name, count in counts.items():
        if zone_of[name]:
            by_zone[zone_of[name]] += count
    most, most_in_zone = max(counts.values()), max(by_zone.values(), default=0)
    scores = {}
    for name, count in counts.items():
        score = 100 * ((most - count) / most) if most else 100.0
        if zone_of[name]:
            there = by_zone[zone_of[name]]
            zone_score = 100 * ((most_in_zone - there) / most_in_zone) if most_in_zone else 100.0
            score = score * (1 - 2 / 3) + 2 / 3 * zone_score
        scores[name] = int(score)
    return scores


def test_service_without_selector_can_be_deleted() -> None:
    bare = Service(metadata=ObjectMeta(name="bare", namespace="default"))
    scenario = Scenario(nodes=NODES, objects=[bare], plugins=[SelectorSpread], config=ALONE)
    scenario.at(10, delete(bare)).at(20, create(make_pod("new", labels=WEB)))
    assert scenario.run().node_of("new")


class Served(SelectorSpread):
    """Sees a service on the random clusters, which have none, and counts its pods for every node again."""

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        handle.objects(Service).put(service(WEB).metadata, service(WEB))
        super().__init__(args, handle)

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        if pod.labels.get("app") != "web":
            return 0
        return sum(
            other.labels.get("app") == "web" and other.namespace == "default" and not other.terminating
            for other in node.pods
            if pod.namespace == "default"
        )


OWN_CONSTRAINTS = [TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule")]
TERMINATING = make_pod("ends", labels=WEB, deletion_timestamp="2026-01-01T00:00:30Z")


class TestContract(PluginContract):
    plugin = SelectorSpread
    examples = 4
    pods = [make_pod("constrained", topology_spread=OWN_CONSTRAINTS), TERMINATING, make_pod("web", labels=WEB)]


@pytest.mark.slow
@pytest.mark.parametrize("plugin", [SelectorSpread, Served])
def test_contract_is_checked_with_differing_nodes_and_pods(plugin: type[SelectorSpread]) -> None:
    reached = check_plugin(plugin, pods=TestContract.pods)
    assert reached.skips["pre_score"]
    assert reached.scores[0]
    # The columns of `Served` were compared with pods counted one by one.
    assert (reached.scores.keys() >= {0, 1, 2}) is (plugin is Served)
