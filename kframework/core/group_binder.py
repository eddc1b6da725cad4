"""The bindings of groups: pods of a gang are bound together, and a gang that stays bound in part is given back.

The API binds one pod after the other, and may refuse some. The refused pods are tried again, while the others run. With
a time limit these are evicted if the gang does not get its minimum in time. The condition `kframework.dev/Binding` of a
PodGroup is true until that is decided, so that the next scheduler decides it if this one ends before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kframework.clock import Clock
from kframework.config.duration import Duration
from kframework.core.cycle.group_bindings import GroupBindings
from kframework.core.cycle.results import Reservation
from kframework.core.group_conditions import GroupConditions
from kframework.core.groups.cycle import GroupOutcome
from kframework.core.host import Host
from kframework.core.runtime.points import run_placement_feasible
from kframework.core.runtime.profile import Profile
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.objects.pod_groups import minimum_of
from kframework.state.cluster import ClusterState
from kframework.state.group_trees import EntityKey, entity_key
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Status


class GroupBinder:
    """Lets pods of groups wait for each other before they are bound.

    Attributes:
        time_limit: how long a gang may be bound in part, in seconds; 0 if it may stay so.
        unfinished: the bindings of trees with gangs that are bound in part, by root.
    """

    def __init__(
        self,
        cluster: ClusterState,
        clock: Clock,
        conditions: GroupConditions,
        host: Callable[[], Host],
        give_up_nomination: Callable[[PendingPod], None],
    ) -> None:
        self.time_limit: float = 0.0
        self._cluster = cluster
        self._clock = clock
        self._conditions = conditions
        self._host = host
        self._give_up_nomination = give_up_nomination
        #: By root.
        self._bindings: dict[EntityKey, GroupBindings] = {}
        self.unfinished: dict[EntityKey, GroupBindings] = {}

    def add(self, root: GenericPodGroup, profile: Profile, outcomes: Sequence[GroupOutcome]) -> None:
        """Let no pod of a group be bound before enough of them can be, if they may still fail."""
        key, may_be_refused = entity_key(root), bool(self.time_limit) and _has_minimum(root)
        reservations = [
            (outcome.group, each)
            for outcome in outcomes
            for _, (_, each) in outcome.results
            if isinstance(each, Reservation)
        ]
        bindings = self._bindings.get(key)
        if bindings is None:
            may_fail = may_be_refused or any(each.profile.permit or each.profile.pre_bind for _, each in reservations)
            if not reservations or not may_fail:
                return
            bindings = self._new_bindings(root, profile)
        for group, reservation in reservations:
            bindings.add(reservation.pod.uid, group)
        short = bindings.short_groups()
        if key not in self._bindings and not short:
            return
        self._bindings[key] = bindings
        for group, reservation in reservations:
            reservation.group = bindings
            if may_be_refused and entity_key(group) in short and not self._was_bound_before(group):
                bindings.begin(group)
        for group in bindings.begun.values():
            self._conditions.report_binding_began(group)

    def may_skip(self, root: GenericPodGroup) -> bool:
        """Return whether pods of a tree that only need to be bound need not wait for others."""
        return entity_key(root) not in self._bindings and not (self.time_limit and _has_minimum(root))

    def _new_bindings(self, root: GenericPodGroup, profile: Profile) -> GroupBindings:
        ask_feasibility = partial(run_placement_feasible, profile.placement_feasible)
        return GroupBindings(root, self._cluster.groups, ask_feasibility, self._conditions.is_marked)

    def leave(self, bindings: GroupBindings, uid: str) -> None:
        """Remove a pod whose binding has ended."""
        bindings.remove(uid)
        if bindings.is_idle:
            self._settle(bindings)

    # -- gangs that are bound in part ----------------------------------------------------------------------------------

    def resume(self, profiles: Mapping[str, Profile]) -> None:
        """Follow the gangs that are bound in part, by this scheduler or, as their conditions say, by one before."""
        for group in self._cluster.objects(PodGroup) if self.time_limit else ():
            if not (self._conditions.is_marked(group) or self._is_in_part(group)):
                continue
            root, bound = self._cluster.groups.trees.root(entity_key(group)), self._bound_pods(group)
            profile = profiles.get(bound[0].spec.profile_name) if bound else None
            if root is not None and profile is not None:
                key = entity_key(root)
                self._bindings[key] = self._bindings.get(key) or self._new_bindings(root, profile)
                self._bindings[key].begin(group)
                self._conditions.report_binding_began(group)
        for bindings in [each for each in self._bindings.values() if each.is_idle]:
            self._settle(bindings)

    @property
    def deadline(self) -> float | None:
        """When the next gang is given back; none is while pods of its tree are being bound."""
        dues = (each.due for each in self.unfinished.values() if each.is_idle)
        return min((due for due in dues if due is not None), default=None)

    def expire(self, now: float) -> None:
        """Give the gangs back whose time is over."""
        for bindings in [*self.unfinished.values()]:
            if bindings.is_idle and bindings.due is not None and bindings.due <= now:
                self._settle(bindings)

    def _settle(self, bindings: GroupBindings) -> None:
        """Decide on the gangs of a tree after the last of its bindings has ended."""
        key, now = entity_key(bindings.root), self._clock.now()
        in_part = {leaf: why for leaf, why in self._groups_in_part(bindings).items() if self.time_limit}
        for leaf in bindings.begun.keys() - in_part.keys():
            self._end(bindings.begun.pop(leaf))
        if not in_part:
            self._bindings.pop(key, None)
            self.unfinished.pop(key, None)
            return
        self.unfinished[key] = bindings
        if bindings.due is None or bindings.due <= now:
            for leaf, why in in_part.items() if bindings.due is not None else ():
                self._give_back(bindings.begun[leaf], why)
            bindings.due = now + self.time_limit

    def _groups_in_part(self, bindings: GroupBindings) -> dict[EntityKey, Status]:
        """Return the groups with bound pods whose minimum, or that of a group above them, is not reached, and why."""
        begun = {leaf: group for leaf, group in bindings.begun.items() if self._cluster.groups.trees.get(leaf)}
        short = bindings.short_groups()
        return {leaf: short[leaf] for leaf, group in begun.items() if leaf in short and self._bound_pods(group)}

    def _bound_pods(self, group: PodGroup) -> list[PodInfo]:
        """List the pods of a group that are on nodes in the cluster and stay there."""
        members = self._cluster.groups.members(group.metadata.namespace, group.metadata.name)
        bound = (*members.assigned, *members.assumed)
        return [self._cluster.pods[uid] for uid in bound if uid not in members.terminating]

    def _is_in_part(self, group: PodGroup) -> bool:
        """Return whether pods of a gang were bound while this scheduler ran, and never as many as it needs."""
        members = self._cluster.groups.members(group.metadata.namespace, group.metadata.name)
        return 0 < members.most_running < minimum_of(group)

    def _was_bound_before(self, group: PodGroup) -> bool:
        members = self._cluster.groups.members(group.metadata.namespace, group.metadata.name)
        return members.assigned.keys() > members.terminating

    def _end(self, group: PodGroup) -> None:
        self._conditions.report_binding_ended(group, "Bound" if self._bound_pods(group) else "NotBound")

    def _give_back(self, group: PodGroup, why: Status) -> None:
        """Evict the bound pods of a group, and let the others keep no room."""
        namespace, name = group.metadata.namespace, group.metadata.name
        note = f"pod group {namespace}/{name} was bound in part for {Duration(self.time_limit)}: {why.message}"
        self._host().evict_gang(tuple(self._bound_pods(group)), note)
        for uid in self._cluster.groups.members(namespace, name).unscheduled:
            if self._cluster.nominator.nominated_node(uid):
                self._give_up_nomination(self._cluster.pending[uid])


def _has_minimum(root: GenericPodGroup) -> bool:
    return isinstance(root, CompositePodGroup) or root.spec.scheduling_policy.gang is not None
