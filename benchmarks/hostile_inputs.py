"""The hostile inputs of `benchmarks.hostile`: what is there, and what comes or changes again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import msgspec

from benchmarks.cycle import _node, pod
from kframework.objects import ApiObject, Namespace, Node, ObjectMeta, PersistentVolumeClaim, Pod, PodDisruptionBudget

MANY = 3_000
#: So many pods hold what is hostile, each on a node of its own.
HOLDERS = 10
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

Spec = dict[str, Any]


def no_objects() -> Iterable[ApiObject]:
    """Be there with nothing."""
    return ()


class HostileInput(NamedTuple):
    """A hostile input: `present` all the time, `moves` in between; `always` is there in both engines.

    `tried` says that the pods that are present have had their turns before others are looked at; `others` are pods in
    place of the usual ones.
    """

    title: str
    present: Callable[[], Iterable[ApiObject]]
    moves: Callable[[], Iterator[ApiObject]]
    tried: bool = False
    always: Callable[[], Iterable[ApiObject]] = no_objects
    others: Callable[[int], Pod] | None = None


# -- pods ----------------------------------------------------------------------------------------------------------


def hostile(name: str, node_name: str = "", labels: Spec | None = None, meta: Spec | None = None, **spec: Any) -> Pod:
    """Make a pod of the hostile user; its spec is in the API's words."""
    stated = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}], "nodeName": node_name, **spec}
    metadata = {"name": name, "namespace": "hostile", "uid": name, "labels": labels or {"mine": "1"}, **(meta or {})}
    return msgspec.convert({"metadata": metadata, "spec": stated}, Pod)


def pods_with(title: str, spec: Callable[[int], Spec], templates: int = 1, **fields: Any) -> HostileInput:
    """Make the row of pods with such a spec: some run, one more is tried again and again."""

    def present() -> Iterator[Pod]:
        for index in range(HOLDERS):
            yield hostile(f"holder-{index}", f"node-{index}", **fields, **spec(index % templates))

    def moves() -> Iterator[Pod]:
        for index in count():
            yield hostile(f"more-{index}", **fields, **spec(index % templates))

    return HostileInput(title, present, moves)


def affinity_of(kind: str, *terms: Spec) -> Spec:
    """State required or preferred terms of affinity or anti-affinity."""
    weighted = [{"weight": 1 + index % 100, "podAffinityTerm": term} for index, term in enumerate(terms)]
    side, _, when = kind.partition(" ")
    return {"affinity": {side: {when: list(terms) if when == REQUIRED else weighted}}}


def terms_of(
    selector: Callable[[int], Spec], topology: Callable[[int], str] = lambda _: ZONE, **fields: Any
) -> list[Spec]:
    """State many terms about the pods of everybody."""
    own = fields or {"namespaces": ["default"]}
    return [{"topologyKey": topology(each), "labelSelector": selector(each), **own} for each in range(MANY)]


def select_workload(each: int) -> Spec:
    """Select one of the others' workloads."""
    return {"matchLabels": {"app": str(each % 12)}}


def exclude_absent(each: int) -> Spec:
    """Select all workloads but one that is not there."""
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"none-{each}"]}]}


def select_existing(each: int) -> Spec:
    """Select all workloads, each time in other words."""
    absent = {"key": f"none-{each}", "operator": "DoesNotExist"}
    return {"matchExpressions": [{"key": "app", "operator": "Exists"}, absent]}


def alternate_topology(each: int) -> str:
    """Name the topologies in turn."""
    return (ZONE, HOST)[each % 2]


def select_namespaces(each: int) -> Spec:
    """Select all namespaces, each time in other words."""
    return {"matchExpressions": [{"key": f"none-{each}", "operator": "DoesNotExist"}]}


def exclude_one(each: int) -> Spec:
    """Select all of the others' pods but one, by their own labels."""
    return {"matchExpressions": [{"key": "own", "operator": "NotIn", "values": [f"pod-{each}"]}]}


def select_several(each: int) -> Spec:
    """Select some of the others' pods by their own labels."""
    return {"matchExpressions": [{"key": "own", "operator": "In", "values": [f"pod-{each + n}" for n in range(50)]}]}


def select_workload_but_one(each: int) -> Spec:
    """Select all pods but one of one of the others' workloads."""
    return {**select_workload(each), **exclude_one(each)}


def with_own_label(turn: int) -> Pod:
    """Make a pod of the others that has a label of its own, as those of a StatefulSet or an indexed Job have."""
    made = pod(turn, turn % 12)
    labels = {**made.metadata.labels, "own": f"pod-{turn}"}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


def own_label_rows() -> Iterator[HostileInput]:
    """List the rows of inter-pod terms beside pods that have labels of their own."""
    for kind in (f"podAffinity {PREFERRED}", f"podAntiAffinity {PREFERRED}", f"podAffinity {REQUIRED}"):
        for select in (select_workload, exclude_absent, select_existing, exclude_one, select_several):
            title = f"3,000 terms of {kind}, {select.__name__}, beside own labels"
            yield _beside_own_labels(title, affinity_of(kind, *terms_of(select, alternate_topology)))
    soft = f"podAffinity {PREFERRED}"
    terms = terms_of(select_workload_but_one, alternate_topology)
    yield _beside_own_labels("3,000 preferred terms, a label and NotIn, beside own labels", affinity_of(soft, *terms))
    terms = terms_of(exclude_one, lambda each: f"topology-{each}")
    yield _beside_own_labels("3,000 preferred terms, own topologies, beside own labels", affinity_of(soft, *terms))
    for select in (exclude_one, select_several, select_workload_but_one):
        title = f"10,000 templates with one preferred term each, {select.__name__}, beside own labels"
        yield many_templates(title, partial(_prefer_one, select))._replace(others=with_own_label)
    for each, term in enumerate(terms):
        term.update(topologyKey=alternate_topology(each), namespaces=[], namespaceSelector=select_namespaces(each))
    yield _beside_own_labels("3,000 preferred terms, namespaceSelector, beside own labels", affinity_of(soft, *terms))


def _prefer_one(selector: Callable[[int], Spec], each: int) -> Spec:
    return affinity_of(f"podAffinity {PREFERRED}", {**terms_of_one(each), "labelSelector": selector(each)})


def _beside_own_labels(title: str, spec: Spec) -> HostileInput:
    return pods_with(title, lambda _: spec)._replace(others=with_own_label)


def affinity_rows() -> Iterator[HostileInput]:
    """List the rows of inter-pod terms."""
    near_soft, away_soft = f"podAffinity {PREFERRED}", f"podAntiAffinity {PREFERRED}"
    near_hard, away_hard = f"podAffinity {REQUIRED}", f"podAntiAffinity {REQUIRED}"

    def several(title: str, kind: str, *args: Any, **fields: Any) -> HostileInput:
        terms = terms_of(*args, **fields)
        return pods_with(title, lambda _: affinity_of(kind, *terms))

    yield several("3,000 preferred affinity terms, matchLabels", near_soft, select_workload, alternate_topology)
    yield several("3,000 preferred affinity terms, NotIn", near_soft, exclude_absent, alternate_topology)
    yield several("3,000 preferred affinity terms, Exists", near_soft, select_existing, alternate_topology)
    yield several("3,000 preferred anti-affinity terms, NotIn", away_soft, exclude_absent, alternate_topology)
    yield several("3,000 required affinity terms, NotIn", near_hard, exclude_absent, alternate_topology)
    yield several("3,000 required anti-affinity terms, NotIn", away_hard, exclude_absent, lambda _: HOST)
    yield several(
        "3,000 preferred terms, all namespaces", near_soft, exclude_absent, alternate_topology, namespaceSelector={}
    )
    selecting = terms_of(exclude_absent, alternate_topology)
    for each, term in enumerate(selecting):
        term.update(namespaces=[], namespaceSelector=select_namespaces(each))
    yield pods_with("3,000 preferred terms, namespaceSelector", lambda _: affinity_of(near_soft, *selecting))
    yield several(
        "3,000 preferred terms, each of its own topology", near_soft, exclude_absent, lambda each: f"topology-{each}"
    )
    away = [{"topologyKey": HOST, "labelSelector": exclude_absent(0), "namespaces": ["default"]}]
    hundred = terms_of(exclude_absent, alternate_topology)[:100]
    yield many_templates(
        "10,000 templates with one term each, in turn", lambda each: affinity_of(near_soft, terms_of_one(each))
    )
    yield many_templates(
        "300 templates with 100 terms each, in turn", lambda each: numbered(affinity_of(near_soft, *hundred), each), 300
    )
    yield changing_labels("labels of a running pod with 3,000 terms", affinity_of(near_soft, *selecting))
    yield nominated_pods(affinity_of(near_soft, *selecting), affinity_of(away_hard, *away))
    yield victims(affinity_of(near_soft, *terms_of(exclude_absent, alternate_topology)))


def terms_of_one(each: int) -> Spec:
    """State a term of its own about everybody's pods."""
    return {"topologyKey": alternate_topology(each), "labelSelector": exclude_absent(each), "namespaces": ["default"]}


def numbered(spec: Spec, each: int) -> Spec:
    """Make a template of its own of a spec."""
    return {**spec, "tolerations": [{"key": f"own-{each}", "operator": "Exists"}]}


def many_templates(title: str, spec: Callable[[int], Spec], templates: int = 10_000) -> HostileInput:
    """Make the row of many templates: 1,000 of their pods run, the rest come in turn and stay."""

    def present() -> Iterator[Pod]:
        for index in range(min(1_000, templates // 2)):
            yield hostile(f"holder-{index}", f"node-{index % 1000}", **spec(index))

    def moves() -> Iterator[Pod]:
        for index in range(1_000, 10_000_000):
            yield hostile(f"holder-{index}", f"node-{index % 1000}", **spec(index % templates))

    return HostileInput(title, present, moves)


def changing_labels(title: str, spec: Spec) -> HostileInput:
    """Make the row of running pods whose labels change all the time."""

    def moves() -> Iterator[Pod]:
        for index in count():
            yield hostile(f"holder-{index % HOLDERS}", f"node-{index % HOLDERS}", {"turn": str(index)}, **spec)

    return HostileInput(title, lambda: (hostile(f"holder-{i}", f"node-{i}", **spec) for i in range(HOLDERS)), moves)


def nominated_pods(*specs: Spec) -> HostileInput:
    """Make the row of pods with terms that wait for room on nominated nodes."""

    def present() -> Iterator[Pod]:
        for index in range(HOLDERS):
            large = [{"name": "main", "resources": {"requests": {"cpu": "1000"}}}]
            spec = {**specs[index % len(specs)], "containers": large, "priority": 1000}
            made = hostile(f"holder-{index}", **spec)
            status = msgspec.structs.replace(made.status, nominated_node_name=f"node-{index}")
            yield msgspec.structs.replace(made, status=status)

    def moves() -> Iterator[Pod]:
        for index in count():
            (made,) = (each for number, each in enumerate(present()) if number == index % HOLDERS)
            labels = {"turn": str(index)}
            yield msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))

    return HostileInput("nominated pods with 3,000 terms", present, moves, tried=True)


def victims(spec: Spec) -> HostileInput:
    """Make the row of running pods with terms that others' pods must evict."""
    full = [{"name": "main", "resources": {"requests": {"cpu": "63"}}}]

    def running(labels: Spec, terms: Spec) -> Callable[[], Iterator[Pod]]:
        def listed() -> Iterator[Pod]:
            for index in range(1_000):
                yield hostile(
                    f"full-{index}", f"node-{index}", labels, containers=full, **(terms if index < 50 else {})
                )

        return listed

    def urgent(turn: int) -> Pod:
        made = pod(turn, turn % 12)
        (main,) = made.spec.containers
        resources = msgspec.structs.replace(main.resources, requests={"cpu": "10"})
        containers = (msgspec.structs.replace(main, resources=resources),)
        return msgspec.structs.replace(
            made, spec=msgspec.structs.replace(made.spec, containers=containers, priority=100 + turn)
        )

    def moves() -> Iterator[Pod]:
        for index in count():
            number = index % 50
            yield hostile(f"full-{number}", f"node-{number}", {"turn": str(index)}, containers=full, **spec)

    title = "victims of preemption with 3,000 terms"
    return HostileInput(title, running({"mine": "1"}, spec), moves, always=running({"mine": "0"}, {}), others=urgent)


def spec_rows() -> Iterator[HostileInput]:
    """List the rows of all else that a pod may have thousands of."""
    constraints = [
        {
            "maxSkew": 1000,
            "topologyKey": alternate_topology(each),
            "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway")[each // 2 % 2],
            "labelSelector": exclude_absent(each),
        }
        for each in range(MANY)
    ]
    yield pods_with("3,000 spread constraints", lambda _: {"topologySpreadConstraints": constraints})
    own = [{**each, "topologyKey": f"topology-{number}"} for number, each in enumerate(constraints)]
    yield pods_with("3,000 spread constraints, each of its own topology", lambda _: {"topologySpreadConstraints": own})
    same = [{"key": f"key-{each}", "operator": "Exists"} for each in range(MANY)]
    yield pods_with("3,000 tolerations", lambda _: {"tolerations": same})
    expressions = [{"matchExpressions": [{"key": f"key-{n}", "operator": "DoesNotExist"}]} for n in range(MANY)]
    wanted = [{"weight": 1, "preference": each} for each in expressions]
    hard = {REQUIRED: {"nodeSelectorTerms": expressions}, PREFERRED: wanted}
    yield pods_with("3,000 + 3,000 node affinity terms", lambda _: {"affinity": {"nodeAffinity": hard}})
    yield pods_with("3,000 labels on pods", lambda _: {}, labels={f"key-{each}": "1" for each in range(MANY)})
    large = {"annotations": {f"key-{each}": "x" * 1500 for each in range(1000)}}
    yield pods_with("1.5 MB of annotations on pods", lambda _: {}, meta=large)
    owners = [{"apiVersion": "v1", "kind": "X", "name": f"n{n}", "uid": f"u{n}"} for n in range(MANY)]
    yield pods_with("3,000 owner references", lambda _: {}, meta={"ownerReferences": owners})
    gates = [{"name": f"gate-{each}"} for each in range(MANY)]
    yield pods_with("3,000 scheduling gates", lambda _: {"schedulingGates": gates})
    small = [{"name": f"c{n}", "image": f"i{n}", "resources": {"requests": {"cpu": "1m"}}} for n in range(MANY)]
    yield pods_with("3,000 containers, each of its own image", lambda _: {"containers": small})
    ports = [{"containerPort": n, "hostPort": n} for n in range(1, MANY)]
    yield pods_with("3,000 host ports", lambda _: {"containers": [{"name": "main", "ports": ports}]})
    names = {f"example.com/r{each}": "0" for each in range(MANY)}
    odd = [{"name": "main", "resources": {"requests": names}}]
    yield pods_with("3,000 resource names on pods", lambda _: {"containers": odd})
    claims = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(1000)]
    yield pods_with("1,000 claims that are not there", lambda _: {"volumes": claims})
    there = pods_with("", lambda _: {"volumes": claims})
    metas = [ObjectMeta(name=f"c{n}", namespace="hostile", uid=f"c{n}") for n in range(1000)]
    unbound = [PersistentVolumeClaim(metadata=meta) for meta in metas]
    yield there._replace(title="1,000 claims, unbound", present=lambda: (*unbound, *there.present()))
    yield many_templates("10,000 templates, in turn", lambda each: numbered({}, each))
    yield changing_labels("labels of running pods, kept changing", {})


def node_rows() -> Iterator[HostileInput]:
    """List the rows of assigned objects, and of those without a node."""

    def nodes(title: str, changed: Callable[[Node, int], Node]) -> HostileInput:
        def moves() -> Iterator[Node]:
            for index in count():
                yield changed(_node(index % HOLDERS), index)

        return HostileInput(title, lambda: (changed(_node(index), index) for index in range(HOLDERS)), moves)

    def meta(node: Node, **fields: Any) -> Node:
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, **fields))

    def status(node: Node, **fields: Any) -> Node:
        stated = msgspec.convert({**msgspec.to_builtins(node.status), **fields}, type(node.status))
        return msgspec.structs.replace(node, status=stated)

    def tainted(node: Node, turn: int) -> Node:
        taints = [{"key": f"key-{each}", "effect": "PreferNoSchedule", "value": str(turn)} for each in range(MANY)]
        return msgspec.structs.replace(node, spec=msgspec.convert({"taints": taints}, type(node.spec)))

    def sized(node: Node, turn: int) -> Node:
        offered = {**node.status.allocatable, **{f"example.com/r{each}": str(1 + turn) for each in range(MANY)}}
        return status(node, allocatable=offered)

    labels = {f"key-{each}": "1" for each in range(MANY)}
    yield nodes("3,000 taints on nodes", tainted)
    yield nodes(
        "3,000 labels on nodes", lambda n, turn: meta(n, labels={**n.metadata.labels, **labels, "t": str(turn)})
    )
    large = {f"key-{each}": "x" * 1500 for each in range(1000)}
    yield nodes("1.5 MB of annotations on nodes", lambda n, turn: meta(n, annotations={**large, "t": str(turn)}))
    images = [{"names": [f"image-{each}"], "sizeBytes": 10**8} for each in range(MANY)]
    yield nodes("3,000 images on nodes", lambda n, turn: status(n, images=[*images, {"names": [f"own-{turn}"]}]))
    yield nodes("3,000 resource names on nodes", sized)
    yield nodes("labels of nodes, kept changing", lambda n, turn: meta(n, labels={**n.metadata.labels, "t": str(turn)}))

    def namespace(index: int, turn: int) -> Namespace:
        return Namespace(metadata=ObjectMeta(name=f"ns-{index}", uid=f"ns-{index}", labels={"turn": str(turn)}))

    def renamed() -> Iterator[Namespace]:
        for turn in count():
            yield namespace(turn % 5000, turn)

    all_there = [namespace(index, -1) for index in range(5000)]
    yield HostileInput("5,000 namespaces, their labels kept changing", lambda: all_there, renamed)
    selecting = terms_of(exclude_absent, alternate_topology)
    for each, term in enumerate(selecting):
        term.update(namespaces=[], namespaceSelector=select_namespaces(each))
    soft = affinity_of(f"podAffinity {PREFERRED}", *selecting)
    holders = [hostile(f"holder-{index}", f"node-{index}", **soft) for index in range(HOLDERS)]
    yield HostileInput("the same beside 3,000 terms with namespaceSelector", lambda: (*all_there, *holders), renamed)

    def waiting(**spec: Any) -> Callable[[], Iterator[Pod]]:
        huge = [{"name": "main", "resources": {"requests": {"cpu": "1000"}}}]
        return lambda: (hostile(f"huge-{n}", **{"containers": huge, **spec}) for n in range(1000))

    def updated() -> Iterator[Node]:
        for turn in count():
            node = _node(turn % HOLDERS)
            yield status(node, allocatable={**node.status.allocatable, "cpu": str(63 + turn % 2)})

    yield HostileInput("1,000 pods too large for any node, nodes updated", waiting(), updated, tried=True)
    terms = affinity_of(f"podAntiAffinity {REQUIRED}", *terms_of(exclude_absent, lambda _: HOST))
    title = "10 of them with 3,000 anti-affinity terms"
    yield HostileInput(title, lambda: list(waiting(**terms)())[:10], updated, tried=True)
    budgets = [
        msgspec.convert(
            {
                "metadata": {"name": f"b{n}", "namespace": "hostile", "uid": f"b{n}"},
                "spec": {"selector": exclude_absent(n)},
            },
            PodDisruptionBudget,
        )
        for n in range(MANY)
    ]
    preempting = victims({})

    def changed_budgets() -> Iterator[PodDisruptionBudget]:
        for turn in count():
            budget = budgets[turn % MANY]
            metadata = msgspec.structs.replace(budget.metadata, labels={"turn": str(turn)})
            yield msgspec.structs.replace(budget, metadata=metadata)

    title = "3,000 PodDisruptionBudgets over victims of preemption"
    yield preempting._replace(title=title, present=lambda: budgets, moves=changed_budgets)


ROWS: tuple[HostileInput, ...] = (*affinity_rows(), *own_label_rows(), *spec_rows(), *node_rows())
