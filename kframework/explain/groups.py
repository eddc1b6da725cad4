"""The PodGroup of an explained pod: how far its pods are, why its last cycle failed, and what would help all of them.

Nodes to add are not named for pods with claims, as their devices and volumes are not known. Groups of a tree are tried
with the whole tree (`tree_trials`), unless one of them has a topology constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kframework.core.cycle.records import GroupDecision, PlacementTrial
from kframework.core.pod_engine import PodEngine
from kframework.explain.explanation import AlikeMembers, GroupExplanation, PlacementOutcome, State
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.group_trials import GroupWhatIf, has_claims
from kframework.explain.remedies.remedies import Remedy
from kframework.explain.tree_trials import TreeTrial, waiting_pods
from kframework.framework.answers import GroupPlacement
from kframework.objects import GenericPodGroup, PodGroup
from kframework.objects.pod_groups import INITIALLY_SCHEDULED
from kframework.observe.history import History
from kframework.observe.text_table import format_count
from kframework.scheduler.cooperative import time_sliced
from kframework.state.group_trees import POD_GROUP, entity_key
from kframework.values.status import Code

#: The largest number of waiting pods that are placed in a what-if.
_MAX_TRIED = 500
#: The number of placements in which they are placed, and of those for which new nodes are looked for.
_MAX_PLACEMENTS, _MAX_EXTENDED = 8, 3
#: The number of placements whose outcome is told.
_MAX_OUTCOMES = 10

#: A placement as an explanation sees it: its name, and the names of its nodes (None: all).
_Placement = tuple[str, frozenset[str] | None]


class GroupExplainer:
    """The explanation of a group under construction."""

    def __init__(self, engine: PodEngine, history: History, namespace: str, name: str) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._history = history
        self._name = f"{namespace}/{name}"
        self._group = self._cluster.objects(PodGroup).get(name, namespace)
        self._members = self._cluster.groups.members(namespace, name)
        root = self._cluster.groups.trees.root((POD_GROUP, namespace, name))
        self._root = root
        self._is_root = root is not None and root is self._group
        self._tree = "" if root is None or self._is_root else f"{namespace}/{root.metadata.name}"
        lacks_parent = root is None and self._group is not None
        self._lacks = self._cluster.groups.trees.obstacle((POD_GROUP, namespace, name)) if lacks_parent else ""
        #: The last cycle of the root, and how this group fared in it.
        self._decision: GroupDecision | None = None
        if root is not None:
            kind, *names = entity_key(root)
            self._decision = history.for_group(kind, "/".join(names))
        trials = () if self._decision is None else self._decision.trials
        self._trials = [trial for trial in trials if trial.group == ("" if self._is_root else name)]
        self._failed_groups: dict[str, str] = {}
        for trial in trials if self._tree else ():
            if trial.code != Code.SUCCESS and trial.group not in ("", name):
                self._failed_groups.setdefault(trial.group, trial.reason or trial.message)
        gang = None if self._group is None else self._group.spec.scheduling_policy.gang
        self._minimum: int | None = None if gang is None else gang.min_count
        pending = engine.handlers.pending
        self._waiting = [pending[uid] for uid in self._members.unscheduled if uid in pending]
        self._fits: int | None = None
        self._remedies: list[Remedy] = []

    def work(self) -> Iterator[None]:
        """Place the waiting pods in a what-if, and look for remedies; in slices."""
        enough = self._group is not None and self._staying >= (self._minimum or 0)
        if not self._waiting:
            return
        isolated = FullEvaluation(self._engine, self._waiting[0]).isolated
        if enough and self._is_root and len(self._waiting) <= _MAX_TRIED:
            yield from time_sliced(self._try_placements(), isolated)
        elif self._tree and self._group is not None and self._root is not None and self._can_try(self._root):
            trial = TreeTrial(self._engine, self._root, self._group)
            yield from time_sliced(trial.run(), isolated)
            self._fits, self._remedies = trial.fits, trial.remedies

    def _can_try(self, root: GenericPodGroup) -> bool:
        """Return whether a tree has few enough pods, and no topology constraints."""
        trees, groups = self._cluster.groups.trees, list[GenericPodGroup]([root])
        for group in groups:
            groups += trees.children(group)
        return len(waiting_pods(self._engine, root)) <= _MAX_TRIED and not any(map(_domain_of, groups))

    @property
    def _staying(self) -> int:
        """The number of its pods that are not about to end."""
        return len(self._members) - len(self._members.terminating)

    # -- what-ifs ----------------------------------------------------------------------------------------------------

    @property
    def _domain(self) -> str:
        """The label whose value all nodes of the group share; "" if the pods may run anywhere."""
        has_placements = self._cluster.feature_gates.has_placements
        return _domain_of(self._group) if has_placements and self._group is not None else ""

    def _try_placements(self) -> Iterator[None]:
        found: list[tuple[_Placement, GroupWhatIf]] = []
        for placement in self._placements():
            trial = GroupWhatIf(self._engine, self._waiting, placement[1])
            yield from trial.put_pods(self._waiting)
            found.append((placement, trial))
        found.sort(key=lambda each: -len(each[1].placed))
        self._fits = len(found[0][1].placed) if found else 0
        wanted = self._staying if self._minimum is None else self._minimum
        if self._members.running + self._fits < wanted:
            yield from self._find_remedies(found, wanted)

    def _placements(self) -> Sequence[_Placement]:
        """List the placements of the group that had room for most pods in its last cycle."""
        steps = self._engine.profiles[self._waiting[0].scheduler_name].placements
        if not self._domain or self._group is None or steps is None:
            return (("", None),)
        placements = steps.generate(self._group, self._cluster.nodes)
        trials = {trial.name: trial.placed for trial in self._trials}
        known = list(placements) if isinstance(placements, Sequence) else []
        known.sort(key=lambda placement: -trials.get(placement.name, 0))
        return [(placement.name, self._names(placement)) for placement in known[:_MAX_PLACEMENTS]]

    def _names(self, placement: GroupPlacement) -> frozenset[str]:
        return frozenset([self._cluster.nodes.by_row[row].name for row in placement.rows.tolist()])

    def _find_remedies(self, found: Sequence[tuple[_Placement, GroupWhatIf]], wanted: int) -> Iterator[None]:
        running = self._members.running
        most = running + (self._fits or 0)
        extended: list[tuple[int, str, str]] = []
        for (placement, _), trial in () if any(map(has_claims, self._waiting)) else found[:_MAX_EXTENDED]:
            nodes = yield from trial.new_nodes(wanted - running - len(trial.placed))
            extended += [] if nodes is None else [(*nodes, placement)]
        if extended:
            count, model, placement = min(extended)
            where = f" in {self._domain} {placement}" if placement else ""
            change: dict[str, object] = {"kind": "addNodes", "like": model, "count": count}
            change |= {"placement": placement} if placement else {}
            self._remedies.append(Remedy(f"add {format_count(count, 'node')} like {model}{where}", (change,)))
        if self._domain:
            anywhere = GroupWhatIf(self._engine, self._waiting, None)
            yield from anywhere.put_pods(self._waiting)
            if running + len(anywhere.placed) >= wanted:
                text = f"recreate PodGroup {self._name} without its constraint on {self._domain}"
                change = {"kind": "removeConstraint", "podGroup": self._name, "key": self._domain}
                self._remedies.append(Remedy(text, (change,)))
        if self._minimum is not None and most > 0:
            change = {"kind": "lowerMinCount", "podGroup": self._name, "minCount": most}
            self._remedies.append(Remedy(f"lower minCount of PodGroup {self._name} to {most}", (change,)))

    # -- the explanation ---------------------------------------------------------------------------------------------

    def build(self, state_of: Callable[[PodEngine, str], State]) -> GroupExplanation:
        conditions = () if self._group is None else self._group.status.conditions
        placement = "" if self._decision is None or not self._is_root else self._decision.placement
        chosen = (trial for trial in self._trials if placement and trial.name == placement)
        decisive = next(chosen, self._trials[0] if self._trials else None)
        outcomes = _placement_outcomes(self._trials) if self._domain else []
        return GroupExplanation(
            name=self._name,
            exists=self._group is not None,
            tree=self._tree,
            failed_groups=self._failed_groups,
            lacks=self._lacks,
            minimum=self._minimum,
            domain=self._domain,
            pods=len(self._members),
            scheduled=self._members.scheduled,
            members=self._list_members(state_of, "" if decisive is None else decisive.failed_first),
            failed_first="" if decisive is None else decisive.failed_first,
            reason="" if decisive is None else decisive.reason,
            placement=placement,
            placements=tuple(outcomes[:_MAX_OUTCOMES]),
            placements_left_out=max(len(outcomes) - _MAX_OUTCOMES, 0),
            fits=self._fits,
            condition=next((each.message for each in conditions if each.type == INITIALLY_SCHEDULED), ""),
            remedies=tuple(self._remedies),
        )

    def _list_members(self, state_of: Callable[[PodEngine, str], State], failed_first: str) -> tuple[AlikeMembers, ...]:
        """List the pods by what they have in common, those first that failed by themselves, then the other waiting."""
        alike: dict[tuple[State, str], list[tuple[str, str]]] = {}
        for uid in (*self._members.assigned, *self._members.assumed, *self._members.unscheduled):
            pod = self._cluster.pods.get(uid) or self._engine.handlers.pending.get(uid)
            if pod is not None:
                node, message = pod.node_name, "" if pod.node_name else self._last_message(pod.uid)
                alike.setdefault((state_of(self._engine, uid), message), []).append((pod.key, node))
        of_group = "" if self._decision is None else self._decision.message
        members = [
            AlikeMembers(
                tuple(key for key, _ in sorted(pods)),
                state,
                tuple(node for _, node in sorted(pods) if node),
                message,
            )
            for (state, message), pods in alike.items()
        ]
        members.sort(
            key=lambda each: (
                failed_first not in each.pods,
                bool(each.nodes),
                each.message == of_group,
                -len(each.pods),
                each.pods,
            )
        )
        return tuple(members)

    def _last_message(self, uid: str) -> str:
        decisions = self._history.for_pod(uid).decisions
        return decisions[-1].message if decisions else ""


def _domain_of(group: GenericPodGroup) -> str:
    constraints = group.spec.scheduling_constraints
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""


def _placement_outcomes(trials: Sequence[PlacementTrial]) -> list[PlacementOutcome]:
    """List the placements that were tried, those with most pods first."""
    outcomes = [
        PlacementOutcome(
            trial.name, trial.code is Code.SUCCESS, trial.placed, trial.message, trial.failed_first, trial.reason
        )
        for trial in trials
    ]
    return sorted(outcomes, key=lambda outcome: (not outcome.fits, -outcome.placed))
