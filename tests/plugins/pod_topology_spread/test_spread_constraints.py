from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from kframework.objects import ApiObject, ObjectMeta, Pod, ReplicaSet, Service, TopologySpreadConstraint
from kframework.objects.label_selectors import NOTHING, SelectorError
from kframework.plugins.pod_topology_spread.spread_constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    DefaultConstraints,
    SpreadConstraint,
    own_constraints,
    topology_keys,
)
from kframework.state.cluster import ClusterState
from kframework.state.objects import ObjectStore
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_pod
from tests.support.selectors import owner, replica_set, replication_controller, service, stateful_set

WEB = {"matchLabels": {"app": "web"}}
INVALID = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w*"]}]}


def stated(key: str = "zone", when: str = DO_NOT_SCHEDULE, **more: object) -> TopologySpreadConstraint:
    fields = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": 2} | more
    return msgspec.convert(fields, TopologySpreadConstraint)


def pending(pod: Pod, interned: TemplateInterner | None = None) -> PendingPod:
    return PendingPod(pod, TemplateInterner() if interned is None else interned)


def compiled(labels: Mapping[str, str] | None = None, **more: Any) -> SpreadConstraint:
    (found,) = own_constraints(
        pending(make_pod(labels=labels or {}, topology_spread=[stated(**more)])), DO_NOT_SCHEDULE
    )
    return found


def test_missing_fields_have_kube_schedulers_defaults() -> None:
    found = compiled(labelSelector=WEB)
    assert found[:3] == (2, "zone", found.counted.selector)
    assert (found.min_domains, found.honors_affinity, found.honors_taints) == (1, True, False)
    assert found.counted.namespaces == frozenset({"default"})
    assert not found.counted.terminating


def test_given_fields_are_used() -> None:
    found = compiled(minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
    assert (found.min_domains, found.honors_affinity, found.honors_taints) == (3, False, True)


@pytest.mark.parametrize(
    ("selector", "keys", "labels", "text"),
    [
        (WEB, [], {"rev": "1"}, "app=web"),
        (WEB, ["rev"], {"rev": "1"}, "app=web,rev=1"),
        (WEB, ["rev", "absent"], {"rev": "1"}, "app=web,rev=1"),
        (WEB, ["rev"], {}, "app=web"),
        ({}, ["rev"], {"rev": "1"}, "rev=1"),
        (None, ["rev"], {"rev": "1"}, ""),
        ({}, [], {}, ""),
    ],
)
def test_labels_of_the_pod_itself_join_its_selector(
    selector: object, keys: Sequence[str], labels: Mapping[str, str], text: str
) -> None:
    found = compiled(labels, labelSelector=selector, matchLabelKeys=keys)
    assert str(found.selector) == str(found.counted.selector) == text


def test_empty_selector_matches_all_and_counts_none() -> None:
    found = compiled(labelSelector={})
    assert found.selector.matches({"app": "db"})
    assert found.counted.selector is NOTHING


def test_null_selector_matches_none() -> None:
    assert compiled(matchLabelKeys=["app"], labels={"app": "web"}).selector is NOTHING


def test_only_constraints_with_the_action_are_looked_at() -> None:
    pod = pending(make_pod(topology_spread=[stated("a"), stated("b", SCHEDULE_ANYWAY, labelSelector=INVALID)]))
    assert topology_keys(own_constraints(pod, DO_NOT_SCHEDULE)) == ("a",)
    with pytest.raises(SelectorError, match="unknown operator"):
        own_constraints(pod, SCHEDULE_ANYWAY)


def test_constraints_are_compiled_once_for_all_pods_with_the_same_meaning() -> None:
    interned, spread = TemplateInterner(), [stated(labelSelector=WEB, matchLabelKeys=["rev"])]

    def of(namespace: str, rev: str, **labels: str) -> tuple[SpreadConstraint, ...]:
        pod = make_pod(namespace=namespace, labels={"rev": rev} | labels, topology_spread=spread)
        return own_constraints(pending(pod, interned), DO_NOT_SCHEDULE)

    # The template lives as long as a pod that has it.
    kept = pending(make_pod(labels={"rev": "1"}, topology_spread=spread), interned)
    first = own_constraints(kept, DO_NOT_SCHEDULE)
    assert of("default", "1", index="7") is first
    assert of("default", "2") != first != of("other", "1")
    assert own_constraints(pending(make_pod(topology_spread=spread), interned), DO_NOT_SCHEDULE) != first


def test_keys_are_listed_once() -> None:
    pod = pending(make_pod(topology_spread=[stated("b"), stated("a"), stated("b", minDomains=2)]))
    assert topology_keys(own_constraints(pod, DO_NOT_SCHEDULE)) == ("b", "a")


def meta(name: str, namespace: str = "default", version: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, resource_version=version)


def put(cluster: ClusterState, *objects: ApiObject) -> None:
    for each in objects:
        store: ObjectStore[ApiObject] = cluster.objects(type(each))
        store.put(each.metadata, each)


def owned(api_version: str = "apps/v1", kind: str = "ReplicaSet", controls: bool = True) -> Pod:
    said = owner(kind, api_version, controller=controls)
    return make_pod(labels={"app": "web", "tier": "front"}, owner=said)


DEFAULTS = [stated("zone"), stated("host", SCHEDULE_ANYWAY, matchLabelKeys=["app"], minDomains=2)]


def test_default_constraints_have_the_other_fields_that_the_args_give_them() -> None:
    cluster = ClusterState()
    put(cluster, service({"app": "web"}))
    (found,) = DefaultConstraints(DEFAULTS, cluster).for_pod(pending(owned()), SCHEDULE_ANYWAY)
    assert (found.max_skew, found.topology_key, found.min_domains) == (2, "host", 2)


def test_default_constraints_follow_what_changes() -> None:
    cluster = ClusterState()
    defaults, pod = DefaultConstraints(DEFAULTS, cluster), pending(owned())

    def now() -> str:
        return ";".join(str(constraint.selector) for constraint in defaults.for_pod(pod, DO_NOT_SCHEDULE))

    assert now() == ""
    put(cluster, service({"app": "web"}))
    assert now() == "app=web"
    put(cluster, replica_set({"matchLabels": {"tier": "front"}}))
    assert now() == "app=web,tier=front"
    put(cluster, service({"tier": "front", "app": "web"}))
    put(cluster, replica_set({}))
    assert now() == "app=web,tier=front"
    put(cluster, service({"app": "db"}), replica_set(None))
    assert now() == ""
    put(cluster, service({"tier": "front"}))
    assert now() == "tier=front"
    cluster.objects(Service).remove(meta("x"))
    cluster.objects(ReplicaSet).remove(meta("x"))
    assert now() == ""


def test_default_constraints_are_cached_until_a_change() -> None:
    cluster = ClusterState()
    put(cluster, service({"app": "web"}), replica_set(WEB, meta("x", version="1")))
    defaults, pod = DefaultConstraints(DEFAULTS, cluster), pending(owned())
    first = defaults.for_pod(pod, DO_NOT_SCHEDULE)
    put(
        cluster,
        service({"app": "web"}),
        replica_set(WEB, meta("x", version="2")),
        service({"app": "web"}, meta("x", "other")),
    )
    assert defaults.for_pod(pod, DO_NOT_SCHEDULE) is first
    put(cluster, service({"tier": "front"}, meta("t")))
    assert defaults.for_pod(pod, DO_NOT_SCHEDULE) is not first


def test_namespaces_that_had_services_are_forgotten() -> None:
    cluster = ClusterState()
    defaults = DefaultConstraints(DEFAULTS, cluster)
    defaults.for_pod(pending(owned()), DO_NOT_SCHEDULE)  # only now anybody follows services
    (index,) = cluster.objects(Service)._indexes.values()
    for n in range(100):
        for each in (service({"app": "web"}, meta("x", f"space-{n}")), service(None, meta("y", f"space-{n}"))):
            put(cluster, each)
        put(cluster, service({"app": "db"}, meta("x", f"space-{n}")))
        if n:
            for name in "xy":
                cluster.objects(Service).remove(meta(name, f"space-{n}"))
    assert {len(held) for held in vars(index).values() if isinstance(held, dict)} == {1}


def test_service_that_comes_again_is_news() -> None:
    cluster = ClusterState()
    defaults, pod = DefaultConstraints(DEFAULTS, cluster), pending(owned())
    for selector in ({"app": "web"}, {"tier": "front"}):
        put(cluster, service(selector))
        assert [str(each.selector) for each in defaults.for_pod(pod, DO_NOT_SCHEDULE)] == [
            ",".join(f"{key}={value}" for key, value in selector.items())
        ]
        cluster.objects(Service).remove(meta("x"))


def test_workloads_are_not_looked_up_without_default_constraints() -> None:
    assert DefaultConstraints([stated("zone")], ClusterState()).for_pod(pending(owned()), SCHEDULE_ANYWAY) == ()


def selectors(cluster: ClusterState, pod: Pod) -> set[str]:
    """Return the selectors of the default constraints for a pod, as text."""
    defaults, asked = DefaultConstraints(DEFAULTS, cluster), pending(pod)
    found = [
        constraint for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY) for constraint in defaults.for_pod(asked, action)
    ]
    assert topology_keys(found) in ((), ("zone", "host"))
    return {str(constraint.selector) for constraint in found}


@pytest.mark.parametrize(
    ("objects", "pod", "expected"),
    [
        ([], owned(), set()),
        ([service({"app": "web"})], owned(), {"app=web"}),
        ([service({"app": "db"})], owned(), set()),
        ([service(None)], owned(), set()),
        ([service({})], owned(), set()),
        ([service({"app": "web"}, meta("x", "other"))], owned(), set()),
        ([service({"app": "web"}), service({"tier": "front"}, meta("t"))], owned(), {"app=web,tier=front"}),
        ([service({"app": "web"}), service({"app": "web", "tier": "back"}, meta("t"))], owned(), {"app=web"}),
        ([replica_set(WEB)], owned(), {"app=web"}),
        ([replica_set(WEB)], owned(controls=False), set()),
        ([replica_set(WEB)], owned("apps/v1beta1"), set()),
        ([replica_set(WEB)], make_pod(labels={"app": "web"}), set()),
        ([replica_set({})], owned(), set()),
        ([replica_set(None)], owned(), set()),
        ([replica_set(INVALID)], owned(), set()),
        ([replica_set(INVALID), service({"app": "web"})], owned(), {"app=web"}),
        ([replica_set(WEB), service({"tier": "front"})], owned(), {"app=web,tier=front"}),
        ([stateful_set(WEB)], owned(kind="StatefulSet"), {"app=web"}),
        ([stateful_set(WEB)], owned(), set()),
        ([replication_controller({"app": "web"})], owned("v1", "ReplicationController"), {"app=web"}),
        ([replication_controller({})], owned("v1", "ReplicationController"), set()),
        (
            [replication_controller({"app": "db"}), service({"app": "web", "tier": "front"})],
            owned("v1", "ReplicationController"),
            {"app=db,tier=front"},
        ),
        ([replication_controller({"app": "web"})], owned("apps/v1", "ReplicationController"), set()),
    ],
)
def test_default_constraints_are_about_the_pods_of_services_and_owner(
    objects: Sequence[ApiObject], pod: Pod, expected: set[str]
) -> None:
    cluster = ClusterState()
    put(cluster, *objects)
    assert selectors(cluster, pod) == expected
