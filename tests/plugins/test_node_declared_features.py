from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, CycleState, Skip, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import Container, ContainerRestartRule, Node, Pod
from kframework.plugins.node_declared_features import NodeDeclaredFeatures, after_node_change, after_pod_change
from kframework.testing import check_plugin, make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, pending

LACKING = unresolvable("node(s) didn't match Pod's required features")
RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def declaring(*features: str, name: str = "n") -> Node:
    node = make_node(name)
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, declared_features=features))


def pod_of(
    actions: Sequence[str] = (),
    init_actions: Sequence[str] = (),
    *,
    host_network: bool = False,
    host_users: bool | None = None,
    name: str = "pod",
) -> Pod:
    pod = make_pod(name)
    spec = msgspec.structs.replace(
        pod.spec,
        containers=(container(actions),),
        init_containers=(container(init_actions),),
        host_network=host_network,
        host_users=host_users,
    )
    return msgspec.structs.replace(pod, spec=spec)


def container(actions: Sequence[str]) -> Container:
    return Container(name="c", restart_policy_rules=tuple(ContainerRestartRule(action=action) for action in actions))


PLAIN = pod_of(["Restart"], host_network=True)
RESTARTING = pod_of(["Restart", "RestartAllContainers"])
BOTH = pod_of(init_actions=["RestartAllContainers"], host_network=True, host_users=False)


# -- the rule, slow and obvious ----------------------------------------------------------------------------------------


def needed(pod: Pod) -> set[str]:
    found = set()
    for each in [*pod.spec.containers, *pod.spec.init_containers]:
        for rule in each.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                found.add(RESTART)
    if pod.spec.host_network and pod.spec.host_users is not None and not pod.spec.host_users:
        found.add(USERS)
    return found


ACTIONS = st.lists(st.sampled_from(["Restart", "RestartAllContainers"]), max_size=2)
PODS = st.builds(pod_of, ACTIONS, ACTIONS, host_network=st.booleans(), host_users=st.sampled_from([None, True, False]))
DECLARED = st.lists(st.sampled_from([RESTART, USERS, "Other"]), unique=True)


@given(st.lists(DECLARED, max_size=5), PODS)
def test_node_must_declare_all_that_is_needed(declared: list[list[str]], pod: Pod) -> None:
    nodes = [declaring(*features, name=f"n{place}") for place, features in enumerate(declared)]
    expected = {f"n{place}": LACKING for place, features in enumerate(declared) if needed(pod) - set(features)}
    cluster = cluster_of(nodes)
    assert filtered(made(NodeDeclaredFeatures), cluster, pod) == expected
    skipped = made(NodeDeclaredFeatures).pre_filter(CycleState(), pending(pod), cluster.nodes) == Skip
    assert skipped is (not needed(pod))


def test_feature_that_a_node_comes_to_declare_is_seen() -> None:
    cluster, plugin = cluster_of([declaring()]), made(NodeDeclaredFeatures)
    assert filtered(plugin, cluster, RESTARTING) == {"n": LACKING}
    cluster.put_node(declaring(RESTART))
    assert filtered(plugin, cluster, RESTARTING) == {}


def test_pods_with_the_same_needs_share_their_answers() -> None:
    plugin = made(NodeDeclaredFeatures)
    plain, restarting, both = (plugin.sign(pending(pod)) for pod in (PLAIN, RESTARTING, BOTH))
    assert plain == plugin.sign(pending(make_pod(cpu=7)))
    assert len({plain, restarting, both}) == 3


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    assert made(NodeDeclaredFeatures).events_to_register() == [
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE, after_node_change),
        ClusterEvent("Pod", ActionType.UPDATE, after_pod_change),
    ]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, declaring(), QueueingHint.QUEUE),
        (declaring(), declaring(RESTART), QueueingHint.QUEUE),
        (declaring(RESTART), declaring(RESTART), QueueingHint.SKIP),
    ],
)
def test_node_wakes_the_pod_when_it_declares_something_else(old: Node | None, new: Node, hint: QueueingHint) -> None:
    assert after_node_change(pending(RESTARTING), old, new) is hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (RESTARTING, PLAIN, QueueingHint.QUEUE),
        (RESTARTING, RESTARTING, QueueingHint.SKIP),
        (pod_of(["RestartAllContainers"], name="another"), pod_of(name="another"), QueueingHint.SKIP),
    ],
)
def test_pods_own_needs_wake_it(old: Pod, new: Pod, hint: QueueingHint) -> None:
    assert after_pod_change(pending(RESTARTING), pending(old), pending(new)) is hint


def test_contract_is_kept() -> None:
    nodes = [declaring(name="none"), declaring(RESTART, name="one"), declaring(RESTART, USERS, name="two")]
    found = check_plugin(NodeDeclaredFeatures, nodes=nodes, pods=[RESTARTING, BOTH], examples=4)
    assert found.reasons.keys() == {LACKING.message}
    assert found.passes and found.skips["pre_filter"]
