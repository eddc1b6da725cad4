"""How many nodes must be added so that all pods fit, and which nodes can be emptied.

An estimate by requests says which nodes to add: as many times as it can, the shape that takes the most pods for its
price. The scheduler then schedules the pods on these nodes, and what is left over is estimated again. Nodes that can be
emptied are removed. At last the pods on new nodes are scheduled all at once, which proves the plan or adds to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kframework.capacity.drain import Drainer, is_movable
from kframework.capacity.estimate import estimate_nodes
from kframework.capacity.fit_result import PodPlace
from kframework.capacity.fit_simulation import CONTROLLERS_AT_REST, at_rest
from kframework.capacity.workload import Workload, pod_key
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.errors import InputError
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.kinds import reference
from kframework.simulation.simulation import Simulation
from kframework.state.pod_templates import PodTemplate
from kframework.state.pods import PendingPod
from kframework.values.answer import Answer

#: The annotation of a node with its price, in any unit.
PRICE = "kframework.dev/price"
#: The number of times that nodes are estimated; the scheduler's rules leave pods over that requests alone do not.
_ROUNDS = 20
#: The number of times that the pods are scheduled all at once, each with a larger margin for those left over.
_PROOFS = 8
_HOSTNAME = "kubernetes.io/hostname"


class AddedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one shape: their number, what they cost together, and how many pods went to them."""

    shape: str
    count: int
    price: float
    pods: int


class NodePlan(Answer, frozen=True, kw_only=True):
    """The nodes to add so that pods find room, and their price; `unplaced` of the `pending` pods find none."""

    pending: int
    added: tuple[AddedNodes, ...] = ()
    unplaced: tuple[PodPlace, ...] = ()
    price: float = 0.0


class RemovalPlan(Answer, frozen=True, kw_only=True):
    """The nodes that can be emptied, in the order in which to drain them, and where their pods go."""

    nodes: tuple[str, ...]
    moved: tuple[PodPlace, ...] = ()
    price: float = 0.0


def plan_nodes(
    cluster: Iterable[ApiObject],
    shapes: Sequence[Node],
    workload: Iterable[ApiObject] = (),
    config: ConfigurationSource | None = None,
    *,
    plugins: Sequence[type[Plugin]] = (),
) -> NodePlan:
    """Plan the nodes of some shapes to add, so that all pods of a cluster and a workload fit.

    Nodes without a price cost 1 each. Raises InputError for an invalid price, and ClusterError for a refused object.
    """
    drainer = Drainer()
    controllers = (*CONTROLLERS_AT_REST, *drainer.controllers)
    with Simulation(at_rest(cluster), config, plugins=plugins, controllers=controllers) as simulation:
        Workload(workload).create(simulation.run())
        return NodePlanner(simulation.run(), drainer, shapes).plan()


def plan_removal(
    cluster: Iterable[ApiObject],
    config: ConfigurationSource | None = None,
    *,
    plugins: Sequence[type[Plugin]] = (),
    most: int | None = None,
) -> RemovalPlan:
    """Find nodes that can be emptied, at most `most`: all their pods find other nodes, within their budgets."""
    drainer = Drainer()
    controllers = (*CONTROLLERS_AT_REST, *drainer.controllers)
    with Simulation(at_rest(cluster), config, plugins=plugins, controllers=controllers) as simulation:
        simulation.run()
        prices = {node.metadata.name: _price(node) for node in simulation.objects(Node)}
        before = {pod_key(pod): pod.spec.node_name for pod in simulation.objects(Pod)}
        emptying = _Emptying(simulation, drainer)
        nodes = list[str]()
        for name in _emptiest_first(simulation, [*prices]):
            if len(nodes) == most:
                break
            if emptying.try_empty(name):
                nodes.append(name)
        moved = [
            PodPlace(pod_key(pod), pod.spec.node_name)
            for pod in simulation.objects(Pod)
            if pod_key(pod) not in before or before[pod_key(pod)] in nodes  # a controller gives new names
        ]
    return RemovalPlan(nodes=tuple(nodes), moved=tuple(moved), price=sum(prices[name] for name in nodes))


class _Emptying:
    """Tries to empty nodes; one that cannot be emptied gets its pods back."""

    def __init__(self, simulation: Simulation[PodEngine], drainer: Drainer) -> None:
        self._simulation = simulation
        self._drainer = drainer

    def try_empty(self, name: str) -> bool:
        """Drain a node, and return whether each pod found another one; if not, make it schedulable again."""
        simulation, drainer = self._simulation, self._drainer
        if simulation.cluster.read(Node, name).spec.unschedulable:
            return False
        pending = self._pending()
        drainer.drain(simulation, [name])
        simulation.run()
        if not drainer.blocked and self._pending() <= pending:
            return True
        drainer.cancel()
        simulation.patch(Node, name, {"spec": {"unschedulable": False}})
        simulation.run()
        return False

    def _pending(self) -> set[str]:
        return {pod.key for pod in self._simulation.scheduler.engine.handlers.pending.values()}


class NodePlanner:
    """Adds nodes to a simulation until no pod is pending, or none of the shapes helps."""

    def __init__(self, simulation: Simulation[PodEngine], drainer: Drainer, shapes: Sequence[Node]) -> None:
        self._simulation = simulation
        self._emptying = _Emptying(simulation, drainer)
        self._shapes = shapes
        self._prices = [_price(shape) for shape in shapes]
        self._added: dict[str, int] = {}  # name of a new node -> its shape
        self._serial = 0
        #: The shapes that have not helped pods of a template, by their positions.
        self._useless: set[tuple[PodTemplate, int]] = set()

    def plan(self) -> NodePlan:
        """Add nodes, remove those that are not needed, and prove the rest."""
        count = len(self._pending())
        self._add_nodes(1)
        self._remove_unneeded()
        # Scheduled all at once, pods may spread over the nodes so that others find no room.
        for proof in range(_PROOFS):
            self._reschedule()
            if not self._add_nodes(2**proof):
                break
        self._remove_empty()
        left = self._pending()
        messages = {outcome.pod: outcome.message for outcome in self._simulation.outcomes} if left else {}
        unplaced = tuple(PodPlace(pod.key, "", messages.get(pod.key, "")) for pod in left)
        added = tuple(self._count_added())
        return NodePlan(pending=count, added=added, unplaced=unplaced, price=sum(each.price for each in added))

    def _pending(self) -> list[PendingPod]:
        """List the pods that wait for a node, and not for a gate or their group."""
        engine = self._simulation.scheduler.engine
        held = ("gated", "incomplete")
        return [pod for pod in engine.handlers.pending.values() if engine.queue.queue_of(pod.uid) not in held]

    def _add_nodes(self, margin: int) -> bool:
        """Add nodes for `margin` times the pending pods; return whether there were shapes that may help."""
        pending, helped = self._pending(), False
        for _ in range(_ROUNDS):
            planned = estimate_nodes(self._shapes, self._prices, pending * margin, self._useless)
            if not planned:
                break
            for shape in planned.elements():
                self._create(shape)
            left = self._run()
            if len(left) >= len(pending):
                self._useless |= {(pod.template, shape) for pod in left for shape in planned}
            pending, helped = left, True
        return helped

    def _run(self) -> list[PendingPod]:
        self._simulation.run()
        return self._pending()

    def _create(self, shape: int) -> None:
        self._serial += 1
        name = f"{self._shapes[shape].metadata.name}-new-{self._serial}"
        metadata = replace(self._shapes[shape].metadata, name=name, uid="")
        metadata = replace(metadata, labels={**metadata.labels, _HOSTNAME: name})
        self._simulation.create(replace(self._shapes[shape], metadata=metadata))
        self._added[name] = shape

    def _reschedule(self) -> None:
        """Delete the pods on new nodes, so that they are recreated and scheduled all at once."""
        for pod in self._pods_on_added():
            self._simulation.cluster.remove_object(pod, grace=0)
        self._simulation.run()

    def _remove_unneeded(self) -> None:
        """Remove nodes that can be emptied, the dearest shapes and the emptiest nodes first."""
        for shape in sorted(range(len(self._shapes)), key=lambda shape: -self._prices[shape]):
            names = [name for name in self._added if self._added[name] == shape]
            for name in _emptiest_first(self._simulation, names):
                if not self._emptying.try_empty(name):
                    break  # no fuller node of the shape can be emptied
                self._remove(name)

    def _remove_empty(self) -> None:
        used = {pod.spec.node_name for pod in self._pods_on_added()}
        for name in [name for name in self._added if name not in used]:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._simulation.delete(Node, name)
        del self._added[name]

    def _pods_on_added(self) -> list[Pod]:
        return [pod for pod in self._simulation.objects(Pod) if pod.spec.node_name in self._added and is_movable(pod)]

    def _count_added(self) -> Iterator[AddedNodes]:
        pods = Counter(self._added[pod.spec.node_name] for pod in self._pods_on_added())
        for shape, count in sorted(Counter(self._added.values()).items()):
            yield AddedNodes(
                shape=self._shapes[shape].metadata.name,
                count=count,
                price=count * self._prices[shape],
                pods=pods[shape],
            )


def _price(node: Node) -> float:
    """Return the price of a node; 1 without one. InputError for an invalid one."""
    text = node.metadata.annotations.get(PRICE, "1")
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise InputError(f"{PRICE} is {text!r}, not a number", subject=reference(node))
    return price


def _emptiest_first(simulation: Simulation[PodEngine], names: Iterable[str]) -> list[str]:
    """Sort nodes by their largest share of a requested resource, pods apart."""
    nodes = simulation.scheduler.engine.cluster.nodes

    def share(name: str) -> float:
        node = nodes.find(name)
        if node is None:
            return 0.0
        amounts = [(node.requested(each), node.allocatable(each)) for each in ("cpu", "memory")]
        return max(requested / max(offered, 1) for requested, offered in amounts)

    return sorted(names, key=share)
