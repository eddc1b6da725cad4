"""What-ifs about a tree of groups: which of them find nodes together, and what would let another one be scheduled.

The groups are placed in the order of a cycle, each with its minimum or not at all. Topology constraints are not kept.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from kframework.core.pod_engine import PodEngine
from kframework.explain.group_trials import GroupWhatIf, has_claims
from kframework.explain.remedies.remedies import Remedy
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.objects.pod_groups import minimum_of
from kframework.observe.text_table import format_count
from kframework.state.group_trees import EntityKey, entity_key
from kframework.state.pods import PendingPod


class TreeWhatIf:
    """A what-if about the waiting pods of a tree, in which some groups have other minima (`minima`).

    Attributes:
        what_if: the pods that have nodes.
        enough: the groups that have their minimum.
    """

    def __init__(self, engine: PodEngine, root: GenericPodGroup, minima: Mapping[EntityKey, int] = {}) -> None:
        self.what_if: GroupWhatIf = GroupWhatIf(engine, waiting_pods(engine, root), None)
        self.enough: set[EntityKey] = set()
        self._engine = engine
        self._root = root
        self._minima = minima

    def put_pods(self) -> Generator[None, None, bool]:
        """Place the pods; return whether the root has its minimum."""
        return (yield from self._put(self._root))

    def _put(self, group: GenericPodGroup) -> Generator[None, None, bool]:
        key, before = entity_key(group), len(self.what_if.placed)
        if isinstance(group, PodGroup):
            yield from self.what_if.put_pods(waiting_pods(self._engine, group))
            parts = _running(self._engine, group) + len(self.what_if.placed) - before
        else:
            parts = 0
            for child in self._engine.cluster.groups.trees.children(group):
                parts += yield from self._put(child)
        if parts < self._minima.get(key, minimum_of(group)):
            self.what_if.take_back(before)
            return False
        self.enough.add(key)
        return True

    def count(self, group: PodGroup) -> int:
        """Return how many waiting pods of a group have nodes."""
        uids = {pod.uid for pod in waiting_pods(self._engine, group)}
        return sum(pod.uid in uids for pod, _ in self.what_if.placed)


class TreeTrial:
    """Looks for what would let a PodGroup of a tree be scheduled, each change by itself.

    Attributes:
        fits: how many of its waiting pods find nodes beside the groups before it.
        remedies: the changes that would help.
    """

    def __init__(self, engine: PodEngine, root: GenericPodGroup, leaf: PodGroup) -> None:
        self.fits: int = 0
        self.remedies: list[Remedy] = []
        self._engine = engine
        self._trees = engine.cluster.groups.trees
        self._root = root
        self._leaf = leaf
        self._path = {entity_key(group): group for group in self._trees.path(entity_key(leaf))}

    def run(self) -> Generator[None, None, None]:
        """Try the tree as it is, and with changes unless the group is scheduled."""
        leaf = entity_key(self._leaf)
        alone = dict.fromkeys(self._composites(self._root), 0)
        with_all_its_pods = TreeWhatIf(self._engine, self._root, alone | {leaf: 0})
        yield from with_all_its_pods.put_pods()
        self.fits = with_all_its_pods.count(self._leaf)
        if (yield from self._is_scheduled({})):
            return
        yield from self._add_nodes(alone)
        running = _running(self._engine, self._leaf)
        most = running + self.fits
        if 0 < most < minimum_of(self._leaf) and (yield from self._is_scheduled({leaf: most})):
            self._suggest("lowerMinCount", "lower minCount of PodGroup {} to {}", self._leaf, "minCount", most)
        for key, group in self._path.items():
            if isinstance(group, CompositePodGroup):
                yield from self._lower_group_count(key, group)

    def _is_scheduled(self, minima: Mapping[EntityKey, int]) -> Generator[None, None, bool]:
        """Return whether the group is scheduled with these minima: it and all groups above it have theirs."""
        trial = TreeWhatIf(self._engine, self._root, minima)
        yield from trial.put_pods()
        return self._path.keys() <= trial.enough

    def _composites(self, group: GenericPodGroup) -> list[EntityKey]:
        if isinstance(group, PodGroup):
            return []
        below = (key for child in self._trees.children(group) for key in self._composites(child))
        return [entity_key(group), *below]

    def _lower_group_count(self, key: EntityKey, group: CompositePodGroup) -> Generator[None, None, None]:
        trial = TreeWhatIf(self._engine, self._root, {key: 0})
        yield from trial.put_pods()
        most = sum(entity_key(child) in trial.enough for child in self._trees.children(group))
        if 0 < most < minimum_of(group) and (yield from self._is_scheduled({key: most})):
            text = "recreate CompositePodGroup {} with minGroupCount {}"
            self._suggest("lowerMinGroupCount", text, group, "minGroupCount", most)

    def _suggest(self, kind: str, text: str, group: GenericPodGroup, field: str, count: int) -> None:
        name = f"{group.metadata.namespace}/{group.metadata.name}"
        target = "podGroup" if isinstance(group, PodGroup) else "compositePodGroup"
        change: dict[str, object] = {"kind": kind, target: name, field: count}
        self.remedies.append(Remedy(text.format(name, count), (change,)))

    # -- new nodes -----------------------------------------------------------------------------------------------------

    def _add_nodes(self, alone: Mapping[EntityKey, int]) -> Generator[None, None, None]:
        """Suggest nodes for the pods that lack room, beside the groups that find nodes by themselves."""
        trial = TreeWhatIf(self._engine, self._root, alone)
        yield from trial.put_pods()
        lacking = self._lacking(self._root, trial.enough)
        if not lacking or any(map(has_claims, lacking)):
            return
        placed = trial.what_if.placed
        what_if = GroupWhatIf(self._engine, [*(pod for pod, _ in placed), *lacking], None, placed)
        yield from what_if.put_pods(lacking)
        nodes = yield from what_if.new_nodes(len(placed) + len(lacking) - len(what_if.placed))
        if nodes is not None:
            count, model = nodes
            change: dict[str, object] = {"kind": "addNodes", "like": model, "count": count}
            self.remedies.append(Remedy(f"add {format_count(count, 'node')} like {model}", (change,)))

    def _lacking(self, group: GenericPodGroup, enough: set[EntityKey]) -> Sequence[PendingPod] | None:
        """List the pods that a group needs beside the PodGroups that have enough, as few as possible; None: too few."""
        if isinstance(group, PodGroup):
            if entity_key(group) in enough:
                return ()
            needed = minimum_of(group) - _running(self._engine, group)
            pods = waiting_pods(self._engine, group)[:needed]
            return pods if len(pods) == needed else None
        children = self._trees.children(group)
        children.sort(key=lambda child: entity_key(child) not in self._path)
        found = [(child, self._lacking(child, enough)) for child in children]
        possible = [(entity_key(child) not in self._path, pods) for child, pods in found if pods is not None]
        possible.sort(key=lambda each: (each[0], len(each[1])))
        minimum = minimum_of(group)
        if len(possible) < minimum or (entity_key(group) in self._path and possible[0][0]):
            return None
        return [pod for _, pods in possible[:minimum] for pod in pods]


def waiting_pods(engine: PodEngine, group: GenericPodGroup) -> list[PendingPod]:
    """List the waiting pods of a group and of the groups below it."""
    pending = engine.handlers.pending
    members = engine.cluster.groups.members_below(group)
    return [pending[uid] for each in members for uid in each.unscheduled if uid in pending]


def _running(engine: PodEngine, group: PodGroup) -> int:
    return engine.cluster.groups.members(group.metadata.namespace, group.metadata.name).running
