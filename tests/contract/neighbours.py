"""Cases of the plugins that look at which pods are near, and of the namespaces and services that choose pods."""

from __future__ import annotations

from typing import Any

import msgspec

from kframework.objects import (
    Affinity,
    ApiObject,
    LabelSelector,
    Namespace,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
    WorkloadSpec,
)
from kframework.plugins.inter_pod_affinity import plugin as inter_pod_affinity
from kframework.plugins.pod_topology_spread import spread_limits as pod_topology_spread
from kframework.testing import make_node, make_pod
from tests.contract.case import UU, Case, U, World

__all__ = ["CASES"]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
TEAM_A: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
#: Pods without constraints of their own are spread over zones.
SPREAD_BY_DEFAULT = {
    "defaultingType": "List",
    "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
}
UNREADABLE = "label 'app': unknown operator 'Like' (known: In, NotIn, Exists, DoesNotExist)"


def liking(name: str, part: str, operator: str = "In", app: str = "web", **fields: Any) -> Pod:
    """Make a pod that must, or must not, run in the zone of web pods."""
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": ["web"]}]}
    term = {"topologyKey": ZONE, "labelSelector": selector} | fields
    affinity = {part: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return make_pod(name, labels={"app": app}, affinity=msgspec.convert(affinity, Affinity))


def preferring(name: str, part: str, weight: int) -> Pod:
    """Make a web pod that prefers, or avoids, the zone of web pods."""
    preferred = {"weight": weight, "podAffinityTerm": {"topologyKey": ZONE} | WEB}
    affinity = {part: {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    return make_pod(name, labels={"app": "web"}, affinity=msgspec.convert(affinity, Affinity))


def namespace(name: str, **labels: str) -> Namespace:
    """Make a namespace."""
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def spread(over: str = ZONE, when: str = "DoNotSchedule", skew: int = 1, **more: Any) -> TopologySpreadConstraint:
    """Make a constraint that spreads web pods."""
    stated = {"topologyKey": over, "whenUnsatisfiable": when, "maxSkew": skew} | WEB | more
    return msgspec.convert(stated, TopologySpreadConstraint)


def web(name: str, *constraints: TopologySpreadConstraint, **more: Any) -> Pod:
    """Make a web pod with such constraints."""
    return make_pod(name, topology_spread=constraints, **{"labels": {"app": "web"}} | more)


def service(**labels: str) -> Service:
    """Make a service of the pods with these labels."""
    return Service(metadata=ObjectMeta(name="s", namespace="default"), spec=ServiceSpec(selector=labels))


def replica_set(**labels: str) -> ReplicaSet:
    """Make a ReplicaSet of the pods with these labels."""
    chosen = WorkloadSpec(selector=LabelSelector(match_labels=labels))
    return ReplicaSet(metadata=ObjectMeta(name="x", namespace="default"), spec=chosen)


OWNED = make_pod(
    "owned",
    labels={"app": "web", "tier": "front"},
    owner=OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", controller=True),
)
NAMESPACES = [namespace("default", team="a"), namespace("default"), namespace("other", team="a")]
LIKING = [liking("near", "podAffinity"), liking("away", "podAntiAffinity", **TEAM_A)]

OPEN, TAINTED = make_node("a", zone="a"), make_node("b", zone="b", taints=["dedicated=b:NoExecute"])
FENCED = make_node("b", zone="b", taints=["dedicated=b:NoExecute"], unschedulable=True)
SKEWED = World(
    pods=[
        web("hard", spread()),
        web("hosts", spread(HOSTNAME, minDomains=2), spread(skew=2)),
        make_pod("idle", labels={"app": "db"}),
    ],
    nodes=[OPEN, TAINTED],
    other_plugins=["TaintToleration"],
)
#: A zone from which most pods are kept, and which counts only for those that tolerate its taint.
HONORING = World(
    pods=[
        web("honoring", spread(minDomains=2, nodeTaintsPolicy="Honor")),
        web("tolerant", spread(minDomains=2, nodeTaintsPolicy="Honor"), tolerations=["dedicated"]),
        web("settler", tolerations=["node.kubernetes.io/unschedulable"]),
    ],
    nodes=[OPEN, FENCED],
    other_plugins=["NodeUnschedulable"],
)


def by_default(*objects: ApiObject) -> World:
    """Make a world of pods that are spread by what services and their controllers select."""
    return World(
        args=SPREAD_BY_DEFAULT,
        pods=[OWNED, web("plain")],
        objects=objects,
        nodes=[OPEN, TAINTED],
        other_plugins=["TaintToleration"],
    )


CASES: dict[str, Case] = {
    "InterPodAffinity": Case(
        worlds=[
            World(
                args=args,
                pods=[
                    *LIKING,
                    liking("unreadable", "podAffinity", "Like"),
                    preferring("rather-near", "podAffinity", 5),
                    preferring("rather-away", "podAntiAffinity", 3),
                ],
                objects=NAMESPACES,
            )
            for args in ({}, {"ignorePreferredTermsOfExistingPods": True})
        ],
        reasons={
            inter_pod_affinity.AFFINITY,
            inter_pod_affinity.ANTI_AFFINITY,
            inter_pod_affinity.EXISTING,
            f"parsing pod: requiredAffinityTerms: {UNREADABLE}",
        },
        codes={U, UU},
        scores={-3, 0, 5},
        unreached={  # without PreFilter
            "InterPodAffinity.pre_score: except StateKeyError:  # without PreFilter",
            "InterPodAffinity.pre_score: incoming_terms = self._affinities.incoming_terms(pod)",
            "InterPodAffinity.pre_score: if incoming_terms.problem:",
            'InterPodAffinity.pre_score: return error(f"failed to parse pod: {incoming_terms.problem}")',
            "InterPodAffinity.pre_score: weighted = tuple(self._weighted_tallies(pod, incoming_terms, nodes))",
        },
        waking=[
            World(
                pods=[
                    *LIKING,
                    liking("needy", "podAffinity", app="db"),
                    liking("needy-of-a", "podAffinity", app="db", **TEAM_A),
                ],
                objects=NAMESPACES,
            )
        ],
    ),
    "PodTopologySpread": Case(
        worlds=[
            World(
                args=args,
                pods=[
                    web("hard", spread()),
                    web("hosts", spread(HOSTNAME, minDomains=2), spread(skew=2)),
                    web("soft", spread(when="ScheduleAnyway"), spread(HOSTNAME, "ScheduleAnyway")),
                    web("honoring", spread(nodeTaintsPolicy="Honor"), node_selector={"disk": "ssd"}),
                    web("revised", spread(matchLabelKeys=["tier"]), labels={"app": "db", "tier": "front"}),
                    OWNED,
                ],
                objects=[
                    service(app="web"),
                    service(app="web", tier="front"),
                    replica_set(app="web"),
                    replica_set(tier="front"),
                ],
            )
            for args in ({}, SPREAD_BY_DEFAULT, {"defaultingType": "List"})
        ],
        reasons={pod_topology_spread.REASON, pod_topology_spread.NO_LABEL},
        codes={U, UU},
        scores={0, 1, 2, 3},
        unreached={
            "PodTopologySpread.sign: except SelectorError:",
            "PodTopologySpread.sign: return None",
            "PodTopologySpread.pre_filter: except SelectorError as problem:",
            """PodTopologySpread.pre_filter: return error(f"pod's hard topology spread constraints: {problem}")""",
            "PodTopologySpread.pre_score: except SelectorError as problem:",
            """PodTopologySpread.pre_score: return error(f"pod's soft topology spread constraints: {problem}")""",
        },
        waking=[
            SKEWED,
            HONORING,
            by_default(service(tier="front"), replica_set(app="web")),
            by_default(service(tier="front"), service(app="web"), replica_set(tier="front")),
        ],
    ),
    "SelectorSpread": Case(
        worlds=[
            World(
                pods=[web("constrained", spread()), OWNED],
                objects=[service(app="web"), service(tier="front")],
            )
        ],
        times=2,
        scores={0, 1, 2},
        # The selectors are few, and PreScore, which skips constrained pods, always runs first.
        unreached={
            "SelectorSpread._counts_for: self._counts.popitem(last=False)",
            "SelectorSpread._counts_in_cycle: if scored is None:",
            "SelectorSpread._counts_in_cycle: return None",
            "SelectorSpread._counts_in_cycle: spread = _Spread(self._counts_for(pod), zones)",
            "SelectorSpread._counts_in_cycle: spread = scored._replace(zones=np.append(scored.zones, zones))",
            "SelectorSpread._counts_in_cycle: state[_SCORED] = spread",
            "SelectorSpread._counts_in_cycle: zones, scored = self._zones.for_rows(rows), state.get(_SCORED)",
            "SelectorSpread.normalize_score: return 0",
        },
    ),
    "Together": Case(
        worlds=[World(pods=[make_pod("half", labels={"together.example.com/group": "g"})])],
        reasons={"label together.example.com/size must be the number of pods in the group"},
    ),
}
