"""The part of the contract that concerns PodGroups, and the marker of its hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

import pluggy

if TYPE_CHECKING:
    from kframework.framework.answers import GroupPlacement, GroupProgress, PlacedGroup, PreemptForGroup, RejectedPod
    from kframework.framework.cycle_state import CycleState
    from kframework.framework.handle import FindNodes
    from kframework.objects import GenericPodGroup
    from kframework.state.nodes import NodeTable
    from kframework.state.pods import PendingPod
    from kframework.values.scores import Rows, Scores
    from kframework.values.status import Status

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("kframework")


def not_implemented() -> NoReturn:
    """Raise NotImplementedError; the body of every hook, as a docstring alone would make it abstract for mypy."""
    raise NotImplementedError("a hook without @hookimpl is not called")


@runtime_checkable
class FilterMorePlugin(Protocol):
    """The form of `filter_nodes` for several like pods, so that a PodGroup need not try each pod on each node."""

    @hookspec
    def filter_more(
        self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows, added: Scores
    ) -> Scores | int | None:
        """Answer as `filter_nodes` would with `added` more pods on each node, all with the signature of this one.

        An integer is the answer for all nodes. None: it depends on other nodes too. A node that rejects a pod must also
        reject it with more of them. If a plugin that reads pods or domains filters the pods of a group and lacks this
        hook, a node is found for each of them in each placement, before one is chosen.
        """
        not_implemented()


@runtime_checkable
class PlacementFeasiblePlugin(Protocol):
    """Decide whether enough parts of a group can be scheduled together: pods, or groups below a CompositePodGroup."""

    @hookspec
    def placement_feasible(self, group: GenericPodGroup, progress: GroupProgress) -> Status | None:
        """Return whether the group can be scheduled with the nodes that its pods have so far.

        Called before the first pod of a PodGroup, or the first group below a CompositePodGroup, is tried and after
        each one. Unschedulable: it never can, and the cycle of the group ends. Wait: not yet. With no answer but
        Success at the end, the placed pods are bound, unless a group above fails; else none is. Called again while
        Permit or PreBind may still reject pods: ready ones wait before Bind for as long as it says Wait.
        """
        not_implemented()


@runtime_checkable
class PlacementGeneratePlugin(Protocol):
    """List sets of nodes, so that all pods of a group, or below it, run on nodes of the same set."""

    @hookspec
    def placement_generate(self, group: GenericPodGroup, nodes: NodeTable) -> Sequence[GroupPlacement] | Status | None:
        """Return the placements in the order in which they are tried; None if the group may use all nodes.

        Only with the gate TopologyAwareWorkloadScheduling. Its pods are looked at with the nodes of one placement after
        the other, and get theirs from the best one in which the group can be scheduled. If several plugins list
        placements, there is one for the nodes that each of one plugin has in common with each of another. Without
        placements, or with a rejection, the group waits. Of the placements of a group below another, the nodes that the
        one above may not use are left out.
        """
        not_implemented()


@runtime_checkable
class PlacementScorePlugin(Protocol):
    """Rank the placements in which a group can be scheduled."""

    @hookspec
    def placement_score(
        self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable
    ) -> Sequence[int] | Status:
        """Return one score in 0..100 for each, which is multiplied by the plugin's weight.

        Only with the gate TopologyAwareWorkloadScheduling, and if there is a choice. The waiting pods are not on the
        nodes of the tables.
        """
        not_implemented()


@runtime_checkable
class PodGroupPostFilterPlugin(Protocol):
    """A hook that runs if the root of a tree of groups is unschedulable, for preemption for instance."""

    @hookspec
    def pod_group_post_filter(
        self,
        group: GenericPodGroup,
        pods: Sequence[PendingPod],
        rejected: Sequence[RejectedPod],
        find_nodes: FindNodes,
    ) -> PreemptForGroup | Status | None:
        """Propose what would make the group schedulable; change nothing here.

        Only if the Status of the group, which is a root, is Unschedulable. `pods` are those of its tree that wait, in
        order; `rejected` those of them for which no node was feasible. `find_nodes` looks for the nodes of all of them
        again, for example in a what-if without some pods, and does not ask extenders. PreemptForGroup: the engine
        nominates and evicts. Success: wait, and keep nominations. Success and UnschedulableAndUnresolvable end it,
        Unschedulable lets the next plugin try, all else is an error of the group. Its Status ends with the reasons
        given here.
        """
        not_implemented()
