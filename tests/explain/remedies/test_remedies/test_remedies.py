"""What would help, in the words that are shown; that each line is true is tried in properties/test_remedies.py."""

from __future__ import annotations

import msgspec
import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl, unresolvable, unschedulable
from kframework.core.pod_engine import PodEngine
from kframework.explain.remedies.remedies import Remedy, format_proposal, remedies
from kframework.framework.suggestions import free_resource, lower_request, remove_label, uncordon
from kframework.objects import (
    Affinity,
    ApiObject,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
    Volume,
)
from kframework.scheduler import cooperative
from kframework.scheduler.cooperative import run_to_end
from kframework.state.inbox import Deleted, Upserted
from kframework.testing import make_node, make_pod, pending_pod
from tests.support.remedies import find_remedies, make_engine, pending, remedy_lines, suggest_deletion
from tests.support.storage import affinity, claim, claim_volumes, label_affinity, reference, volume

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = LabelSelector(match_labels={"app": "web"})


def apart(key: str = HOST) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=WEB)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def on(**required: str) -> Affinity:
    terms = tuple(
        NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=key, operator="In", values=(value,)),))
        for key, value in required.items()
    )
    selector = NodeSelector(node_selector_terms=terms)
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))


def named(node: str) -> Affinity:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))


def spread(key: str = ZONE, max_skew: int = 1) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=max_skew, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=WEB
    )


def running(name: str = "other", node: str = "a", **fields: object) -> Pod:
    return make_pod(name, node_name=node, **fields)  # type: ignore[arg-type]  # fields of a pod


A = make_node("a", zone="east")
B = make_node("b", zone="west", taints=["closed:NoSchedule"])

CASES: dict[str, tuple[Pod, list[ApiObject], list[str]]] = {
    "cpu": (
        make_pod(cpu=2),
        [A, running(cpu=3)],
        ["free 1 cpu on a (e.g. delete default/other)", "lower the pod's cpu request from 2 to 1"],
    ),
    "memory, to the byte": (
        make_pod(memory="4Gi"),
        [A, running(memory=(12 << 30) + 1)],
        [
            "free 1 byte of memory on a (e.g. delete default/other)",
            "lower the pod's memory request from 4Gi to 4294967295",
        ],
    ),
    "a device that no node has": (
        make_pod(requests={"nvidia.com/gpu": 2}),
        [A],
        ["drop the pod's request for nvidia.com/gpu"],
    ),
    "more than any node has": (make_pod(cpu=6), [A], ["lower the pod's cpu request from 6 to 4"]),
    "room for pods": (
        make_pod(),
        [make_node("a", pods=1), running()],
        ["free room for one more pod on a (e.g. delete default/other)"],
    ),
    "one pod in the way of cpu and memory": (
        make_pod(cpu=2, memory="8Gi"),
        [A, running(cpu=3, memory="12Gi"), running("small", cpu="100m", memory="128Mi")],
        ["delete pod default/other on a"],
    ),
    "a taint": (
        make_pod(),
        [make_node("a", taints=["dedicated=gpu:NoSchedule"])],
        ["remove the taint dedicated=gpu:NoSchedule from a", "let the pod tolerate dedicated=gpu:NoSchedule"],
    ),
    "two taints": (
        make_pod(),
        [make_node("a", taints=["x:NoSchedule", "y=1:NoExecute", "z:PreferNoSchedule"])],
        [
            "remove the taint x:NoSchedule from a and remove the taint y=1:NoExecute from a",
            "let the pod tolerate x:NoSchedule and let the pod tolerate y=1:NoExecute",
        ],
    ),
    "cordoned": (
        make_pod(),
        [make_node("a", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"])],
        ["uncordon a"],
    ),
    "a label": (
        make_pod(node_selector={"disk": "ssd"}),
        [A],
        ["label a with disk=ssd", "drop disk=ssd from the pod's nodeSelector"],
    ),
    "a label that says what a node is": (
        make_pod(node_selector={ZONE: "north"}),
        [A],
        [f"drop {ZONE}=north from the pod's nodeSelector"],
    ),
    "node affinity": (
        make_pod(affinity=on(disk="ssd")),
        [A],
        ["label a with disk=ssd", "drop disk In [ssd] from the pod's node affinity"],
    ),
    "a port": (
        make_pod(host_ports=[80]),
        [A, running(host_ports=[80])],
        ["delete pod default/other on a", "drop the pod's host port 80/TCP"],
    ),
    "anti-affinity": (
        make_pod(affinity=apart()),
        [A, running(labels={"app": "web"})],
        ["delete pod default/other on a", f"drop the pod's anti-affinity to app=web by {HOST}"],
    ),
    "anti-affinity of others": (
        make_pod(labels={"app": "web"}),
        [A, running(affinity=apart())],
        ["delete pod default/other on a"],
    ),
    "anti-affinity in a zone": (
        make_pod(affinity=apart(ZONE)),
        [
            make_node("a", zone="east", unschedulable=True),
            make_node("b", zone="east"),
            running(labels={"app": "web"}),
        ],
        ["delete pod default/other on a", f"drop the pod's anti-affinity to app=web by {ZONE}"],
    ),
    "spread": (
        make_pod(labels={"app": "web"}, topology_spread=[spread()]),
        [A, B, *(running(f"web-{n}", labels={"app": "web"}) for n in range(3))],
        [
            "remove the taint closed:NoSchedule from b",
            "let the pod tolerate closed:NoSchedule",
            f"raise maxSkew of the pod's spread over {ZONE} from 1 to 4",
        ],
    ),
    "spread over what no node has": (
        make_pod(labels={"app": "web"}, topology_spread=[spread("rack")]),
        [A],
        ["drop the pod's spread over rack"],
    ),
    "a claim that is not there": (
        make_pod(
            volumes=[
                Volume(name="tmp"),
                Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="gone")),
            ]
        ),
        [A],
        ["drop the pod's volume data (claim gone)"],
    ),
    "a claim for one pod only": (
        make_pod(volumes=claim_volumes("data")),
        [
            A,
            make_node("b"),
            claim(bound="disk", accessModes=["ReadWriteOncePod"]),
            volume(kept_for=reference()),
            running(volumes=claim_volumes("data")),
        ],
        ["delete pod default/other on a", "drop the pod's volume v-data (claim data)"],
    ),
    "a disk that is reached from nowhere": (
        make_pod(volumes=claim_volumes("data")),
        [A, claim(bound="disk"), volume(on=affinity(label_affinity(ZONE, "north")), kept_for=reference())],
        ["drop the pod's volume v-data (claim data)"],
    ),
    "the name of a node that is closed": (
        make_pod(affinity=named("b")),
        [A, B],
        ["remove the taint closed:NoSchedule from b", "let the pod tolerate closed:NoSchedule"],
    ),
    "the name of a node that is not there": (
        make_pod(affinity=named("gone")),
        [A],
        ["drop metadata.name In [gone] from the pod's node affinity"],
    ),
    "a gate": (make_pod(gates=["example.com/hold"]), [A], ["remove the scheduling gate example.com/hold"]),
    "a gate and a full node": (
        make_pod(cpu=2, gates=["x/y"]),
        [A, running(cpu=3)],
        [
            "remove the scheduling gate x/y and free 1 cpu on a (e.g. delete default/other)",
            "remove the scheduling gate x/y and lower the pod's cpu request from 2 to 1",
        ],
    ),
    "all at once": (
        make_pod(cpu=2, node_selector={"disk": "ssd"}),
        [make_node("a", unschedulable=True), running(cpu=3)],
        ["uncordon a, label a with disk=ssd and free 1 cpu on a (e.g. delete default/other)"],
    ),
    "a pod in the way twice": (
        make_pod(labels={"app": "web"}, topology_spread=[spread(max_skew=2)]),
        [
            A,
            make_node("b", zone="west", unschedulable=True),
            running("first", labels={"app": "web"}),
            running("second", labels={"app": "web"}, affinity=apart()),
        ],
        ["uncordon b", "delete pod default/second on a"],
    ),
    "fewer changes of the pod than of the cluster": (
        make_pod(node_selector={ZONE: "north"}, affinity=apart()),
        [A, *(running(name, labels={"app": "web"}) for name in ("x", "y"))],
        [f"drop {ZONE}=north from the pod's nodeSelector and drop the pod's anti-affinity to app=web by {HOST}"],
    ),
    "nothing": (make_pod(), [A], []),
    "no nodes": (make_pod(), [], []),
}


@pytest.mark.parametrize("case", CASES)
def test_remedy_is_formatted_as_one_line(case: str) -> None:
    pod, objects, expected = CASES[case]
    assert remedy_lines(pod, *objects) == expected


def test_remedies_alternate_kinds_and_are_limited() -> None:
    closed = [make_node(f"closed-{n}", taints=["x:NoSchedule"]) for n in range(9)]
    full = [make_node(f"full-{n}") for n in range(9)]
    pods = [running(f"pod-{n}", f"full-{n}", cpu=4) for n in range(9)]
    assert remedy_lines(make_pod(cpu=1), *closed, *full, *pods) == [
        "remove the taint x:NoSchedule from closed-0",
        "free 1 cpu on full-0 (e.g. delete default/pod-0)",
        "let the pod tolerate x:NoSchedule",
        "drop the pod's request for cpu",
        "remove the taint x:NoSchedule from closed-1",
    ]


def test_smaller_change_precedes_a_larger_one_of_its_kind() -> None:
    objects = [make_node("a"), make_node("b"), running("x", "a", cpu=4), running("y", "b", cpu="3200m")]
    assert [line for line in remedy_lines(make_pod(cpu=1), *objects) if line.startswith("free")] == [
        "free 200m cpu on b (e.g. delete default/y)",
        "free 1 cpu on a (e.g. delete default/x)",
    ]


def test_combinations_are_omitted_if_a_single_change_suffices() -> None:
    worse = make_node("b", taints=["x:NoSchedule", "y:NoSchedule"])
    assert remedy_lines(make_pod(tolerations=["z"]), make_node("a", taints=["x:NoSchedule"]), worse)[0] == (
        "remove the taint x:NoSchedule from a"
    )
    assert not [line for line in remedy_lines(make_pod(), make_node("a", unschedulable=True), worse) if " and " in line]


def test_remedies_keep_room_for_pods_nominated_to_a_node() -> None:
    engine = make_engine([make_node("a", cpu=2)])
    rival = pending(engine, make_pod("rival", cpu="1500m", priority=10))
    engine.cluster.nominator.nominate(rival, "a")
    (freed, *_) = find_remedies(engine, make_pod(cpu=1, priority=10))
    assert freed == (free_resource("a", "cpu", 500),)


def test_examples_are_given_only_if_deleting_them_suffices() -> None:
    """Here company goes with the pod that would make room."""
    term = PodAffinityTerm(topology_key=HOST, label_selector=WEB)
    label_affinity = Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))
    line, *_ = remedy_lines(make_pod(cpu=2, affinity=label_affinity), A, running(cpu=3, labels={"app": "web"}))
    assert line == "free 1 cpu on a"


def test_combined_changes_are_formatted_as_one_line() -> None:
    web, db, far = (
        suggest_deletion(running("web")),
        suggest_deletion(running("db")),
        suggest_deletion(running("far", "b")),
    )
    assert format_proposal([web]) == "delete pod default/web on a"
    assert format_proposal([web, db]) == "delete pods default/web and default/db on a"
    assert format_proposal([web, db, far]) == "delete pods default/web, default/db and default/far"
    assert format_proposal([web, uncordon("a"), db]) == "uncordon a and delete pods default/web and default/db on a"
    joined = format_proposal([uncordon("a"), remove_label("a", "x"), web])
    assert joined == "uncordon a, remove the label x from a and delete pod default/web on a"


def test_pods_to_delete_are_named_as_examples() -> None:
    pods = [pending_pod(running(name)) for name in ("web", "db")]
    text = format_proposal([free_resource("a", "cpu", 2000, pods), lower_request("memory", 1 << 30, 1 << 30)])
    assert text.startswith("free 2 cpu on a (e.g. delete default/web and default/db) and lower the pod's memory")


@pytest.mark.parametrize("case", CASES)
def test_remedies_are_read_back_from_json(case: str) -> None:
    pod, objects, expected = CASES[case]
    found = [Remedy.from_proposal(changes) for changes in find_remedies(make_engine(objects), pod)]
    assert [remedy.text for remedy in found] == expected
    assert msgspec.json.decode(msgspec.json.encode(found), type=list[Remedy]) == found


def objecting(status: Status) -> type[Plugin]:
    class Objecting(Plugin):
        """Objects to nodes with a pod called noisy."""

        name = "Objecting"
        reads = "pods"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return status if any(other.name == "noisy" for other in node.pods) else None

    return Objecting


def test_deleting_single_pods_is_tried_for_plugins_without_suggestions() -> None:
    objects = [A, running("calm"), running("noisy")]
    assert remedy_lines(make_pod(), *objects, plugins=[objecting(unschedulable("noise"))]) == [
        "delete pod default/noisy on a"
    ]
    assert remedy_lines(make_pod(), *objects, plugins=[objecting(unresolvable("noise"))]) == []


def busy() -> tuple[PodEngine, Pod]:
    nodes = [make_node(f"n{n}", zone=f"z{n % 3}", taints=["x:NoSchedule"] if n % 2 else []) for n in range(40)]
    pods = [running(f"p{n}", f"n{n % 40}", cpu=2, labels={"app": "web"}) for n in range(80)]
    return make_engine([*nodes, *pods]), make_pod(
        cpu=1, labels={"app": "web"}, topology_spread=[spread()], host_ports=[80]
    )


def test_no_statement_is_open_between_slices_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    engine, pod = busy()

    def seen() -> list[object]:
        return [(node.object, sorted(other.uid for other in node.pods), node.requested("cpu")) for node in nodes]

    nodes = list(engine.cluster.nodes)
    before, times = seen(), 0
    for _ in remedies(engine, pending(engine, pod)):
        times += 1
        assert not engine.cluster.statements
    assert times > 10
    assert seen() == before


@pytest.mark.parametrize("when", range(0, 12, 2))
def test_search_restarts_when_nodes_are_added_or_deleted(when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    leaving = make_node("a", taints=["x:NoSchedule"])
    engine = make_engine([leaving, make_node("b", unschedulable=True)])
    search = remedies(engine, pending(engine, make_pod()))
    for _ in range(when):
        next(search)
    engine.offer(Deleted(leaving))
    engine.offer(Upserted(make_node("c", taints=["z:NoSchedule"])))
    engine.apply_messages()
    assert [format_proposal(changes) for changes in run_to_end(search)] == [
        "uncordon b",
        "remove the taint z:NoSchedule from c",
        "let the pod tolerate z:NoSchedule",
    ]


def test_search_ends_without_result_after_too_many_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    engine = make_engine([make_node("a", unschedulable=True)])
    for number, _ in enumerate(remedies(engine, pending(engine, make_pod()))):
        assert number < 50
        engine.offer(Upserted(make_node(f"new-{number}", unschedulable=True)))
        engine.apply_messages()
