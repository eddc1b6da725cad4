from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from kframework import ActionType
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import Namespace, Node, ObjectMeta, Pod
from kframework.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kframework.state.cluster import ClusterState
from kframework.testing import Scenario, check_wake_ups, delete, make_node, make_pod, patch
from kframework.values.feature_gates import MINORS
from tests.plugins.asking import cluster_of, made, on_node, pending
from tests.plugins.inter_pod_affinity.test_plugin.worlds import HOST, REQUIRED, ZONE, affinity, term

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP

TEAM_A: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
NO_TEAM: dict[str, Any] = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}
UNREADABLE = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}

PLAIN = make_pod(labels={"app": "x"})


def near(*terms: Any, app: str = "x") -> Pod:
    return make_pod(labels={"app": app}, affinity=affinity(near={REQUIRED: list(terms)}))


def away(*terms: Any, app: str = "x") -> Pod:
    return make_pod(labels={"app": app}, affinity=affinity(away={REQUIRED: list(terms)}))


def there(app: str = "web", name: str = "there", **fields: Any) -> Pod:
    return make_pod(name, labels={"app": app}, **({"node_name": "n"} | fields))


def plugin_of(cluster: ClusterState) -> InterPodAffinity:
    """Make a plugin in a cluster where the namespace `other` is of team a."""
    metadata = ObjectMeta(name="other", labels={"team": "a"})
    cluster.objects(Namespace).put(metadata, Namespace(metadata=metadata))
    return made(InterPodAffinity, None, SimpleNamespace(objects=cluster.objects, nodes=cluster.nodes))


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    plugin = plugin_of(ClusterState())
    pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
    nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.DELETE
    namespaces = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
    assert plugin.events_to_register() == [
        ClusterEvent("Pod", pods, plugin.after_pod_change),
        ClusterEvent("Node", nodes, plugin.after_node_change),
        ClusterEvent("Namespace", namespaces, plugin.after_namespace_change),
    ]


def after_pods(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    before, after = (on_node(each) if each is not None else None for each in (old, new))
    return plugin_of(ClusterState()).after_pod_change(pending(pod), before, after)


@pytest.mark.parametrize(
    ("pod", "new", "hint"),
    [
        (near(term()), there(), QUEUE),
        (near(term()), there(node_name="", nominated_node_name="n"), QUEUE),
        (near(term()), there(node_name=""), SKIP),
        (near(term()), there("db"), SKIP),
        (near(term(), term(app="db")), there(), SKIP),
        (near(term()), there(namespace="other"), SKIP),
        (near(term(**TEAM_A)), there(namespace="other"), QUEUE),
        (near(term(**NO_TEAM)), there(namespace="other"), QUEUE),
        (near(UNREADABLE), there(), QUEUE),
        (near(UNREADABLE), there(node_name=""), SKIP),
        (away(term(app="db")), there(), SKIP),
        (PLAIN, there(), SKIP),
    ],
)
def test_new_pod_wakes_those_whose_affinity_is_about_it(pod: Pod, new: Pod, hint: QueueingHint) -> None:
    assert after_pods(pod, None, new) is hint


@pytest.mark.parametrize(
    ("pod", "old", "hint"),
    [
        (away(term()), there(), QUEUE),
        (away(term()), there(node_name=""), SKIP),
        (away(term()), there("db"), SKIP),
        (away(term(), term(app="db")), there(), QUEUE),
        (away(term(**TEAM_A)), there(namespace="other"), QUEUE),
        (near(term()), there(), SKIP),
        (near(term(), app="web"), there(), QUEUE),
        (near(term(), app="web"), there("db"), SKIP),
        (PLAIN, there(), SKIP),
        (PLAIN, there(affinity=away(term(app="x")).spec.affinity), QUEUE),
        (PLAIN, there(affinity=away(term(app="y"), term(app="x")).spec.affinity), QUEUE),
        (PLAIN, there(affinity=away(term(app="y")).spec.affinity), SKIP),
        (PLAIN, there(affinity=near(term(app="x")).spec.affinity), SKIP),
        (make_pod(labels={"app": "x"}, namespace="other"), there(affinity=away(term(app="x")).spec.affinity), SKIP),
    ],
)
def test_pod_that_leaves_wakes_those_that_it_kept_out(pod: Pod, old: Pod, hint: QueueingHint) -> None:
    assert after_pods(pod, old, None) is hint


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("leaves", [True, False])
def test_one_anti_affinity_term_of_several_is_enough_to_wake_a_pod(leaves: bool, minor: str) -> None:
    """Also in 1.36, where kube-scheduler wants all to match, so that the pod waits for the flush."""
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    options = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "emulatedVersion": minor}
    holder = there(node_name="a")
    scenario = Scenario(
        nodes=[make_node("a", zone="a")],
        pods=[holder, away(term(), term(app="db"))],
        config=yaml.safe_dump_all([document, options]),
    )
    change = delete(holder) if leaves else patch(holder, {"metadata": {"labels": {"app": "other"}}})
    assert scenario.at(5.0, change).run(until=60.0).node_of("pod") == "a"


@pytest.mark.parametrize("selected", [TEAM_A, NO_TEAM])
def test_of_a_pod_that_leaves_terms_count_with_and_without_the_labels_of_the_namespace(selected: Any) -> None:
    holder = there(affinity=away(term(app="x", **selected)).spec.affinity)
    assert after_pods(make_pod(labels={"app": "x"}, namespace="other"), holder, None) is QUEUE
    assert after_pods(PLAIN, holder, None) is (QUEUE if selected is NO_TEAM else SKIP)


@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        (near(term()), there("db"), there(), QUEUE),
        (near(term()), there(), there(), SKIP),
        (near(term()), there(), there("db"), SKIP),
        (near(term(), app="web"), there(), there("db"), QUEUE),
        (away(term()), there(), there("db"), QUEUE),
        (away(term()), there("db"), there(), SKIP),
        (away(term(), term(app="db")), there(), there("db"), QUEUE),
        (away(term()), there(node_name=""), there("db", node_name=""), SKIP),
        (PLAIN, there(affinity=away(term(app="x")).spec.affinity), there("db"), SKIP),
        (PLAIN, PLAIN, make_pod(labels={"app": "y"}), QUEUE),
    ],
)
def test_new_labels_wake_those_that_they_help(pod: Pod, old: Pod, new: Pod, hint: QueueingHint) -> None:
    assert after_pods(pod, old, new) is hint


IN_A, IN_B, IN_NONE = (make_node("n", zone=zone) for zone in ("a", "b", ""))


@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        (near(term()), None, IN_A, QUEUE),
        (near(term()), None, IN_NONE, SKIP),
        (near(term(), term(HOST)), None, IN_NONE, QUEUE),
        (near(term()), IN_NONE, IN_A, QUEUE),
        (near(term()), IN_A, IN_B, QUEUE),
        (near(term()), IN_A, IN_A, SKIP),
        (near(term()), IN_A, IN_NONE, SKIP),
        (near(term()), IN_A, None, SKIP),
        (near(term(), app="web"), IN_A, IN_NONE, QUEUE),
        (near(term(), app="web"), IN_A, None, QUEUE),
        (away(term()), None, IN_A, QUEUE),
        (away(term()), None, IN_NONE, QUEUE),
        (away(term()), IN_NONE, IN_A, SKIP),
        (away(term()), IN_A, IN_B, QUEUE),
        (away(term()), IN_A, IN_NONE, QUEUE),
        (away(term()), IN_A, None, QUEUE),
        (away(term()), IN_NONE, None, SKIP),
        (PLAIN, None, IN_NONE, QUEUE),
        (PLAIN, IN_A, None, SKIP),
        (make_pod(labels={"app": "loner"}), IN_A, IN_B, QUEUE),
        (make_pod(labels={"app": "loner"}), IN_A, IN_NONE, QUEUE),
        (make_pod(labels={"app": "loner"}), IN_A, None, QUEUE),
        (make_pod(labels={"app": "loner"}), IN_NONE, IN_A, SKIP),
    ],
)
def test_nodes_wake_the_pods_that_they_admit(pod: Pod, old: Node | None, new: Node | None, hint: QueueingHint) -> None:
    cluster = cluster_of([make_node("there")], [there("loner", affinity=away(term(app="loner")).spec.affinity)])
    cluster.put_node(IN_A)
    assert plugin_of(cluster).after_node_change(pending(pod, cluster), old, new) is hint


def namespace(name: str = "other", **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        (near(term(**TEAM_A)), None, namespace(team="a"), QUEUE),
        (near(term(**TEAM_A)), None, namespace(), SKIP),
        (near(term(**TEAM_A)), namespace(), namespace(team="a"), QUEUE),
        (away(term(**TEAM_A)), namespace(team="a"), namespace(team="b"), QUEUE),
        (away(term(**TEAM_A)), namespace(team="a"), None, QUEUE),
        (away(term(**TEAM_A)), namespace(team="a"), namespace(team="a", size="large"), SKIP),
        (away(term(namespaceSelector={})), None, namespace(), SKIP),
        (away(term(**NO_TEAM)), namespace(), namespace(team="a"), SKIP),
        (away(term()), namespace(), namespace(team="a"), SKIP),
        (PLAIN, namespace("default"), namespace("default", team="a"), QUEUE),
        (PLAIN, namespace("default", team="a"), None, QUEUE),
        (PLAIN, namespace("default", team="a"), namespace("default", team="a"), SKIP),
        (PLAIN, None, namespace("default"), SKIP),
        (PLAIN, None, namespace(team="a"), SKIP),
    ],
)
def test_namespaces_wake_those_whose_terms_they_change(
    pod: Pod, old: Namespace | None, new: Namespace | None, hint: QueueingHint
) -> None:
    assert plugin_of(ClusterState()).after_namespace_change(pending(pod), old, new) is hint


def test_no_wake_up_is_lost() -> None:
    wanting: list[Pod] = [
        near(term()),
        near(term(), app="web"),
        near(term(HOST, "db"), term(app="db")),
        near(term(**TEAM_A)),
        away(term(HOST)),
        away(term(), term(app="db")),
        away(term(**TEAM_A), app="web"),
        away(term(HOST, namespaceSelector={}), app="db"),
    ]
    pods = [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=f"wanting-{number}"))
        for number, pod in enumerate(wanting)
    ]
    woken = check_wake_ups(InterPodAffinity, nodes=[make_node("a", zone="a")], pods=pods, examples=20)
    for event in ("AssignedPodAdd", "AssignedPodDelete", "NodeAdd", "NamespaceUpdate"):
        assert woken.queue[f"InterPodAffinity {event}"] and woken.skip[f"InterPodAffinity {event}"]
    assert woken.needless_share < 0.9
