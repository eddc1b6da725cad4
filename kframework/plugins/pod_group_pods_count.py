"""PodGroupPodsCount: prefer sets of nodes where more pods of a PodGroup get nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kframework.framework.answers import PlacedGroup
from kframework.framework.plugin import Plugin, hookimpl
from kframework.objects import GenericPodGroup
from kframework.state.nodes import NodeTable
from kframework.values.scores import MAX_SCORE
from kframework.values.status import Code, Status


class PodGroupPodsCount(Plugin):
    """Score by the number of pods of the group that would be on nodes, as a share of the largest one."""

    name = "PodGroupPodsCount"

    @hookimpl
    def placement_score(
        self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable
    ) -> list[int] | Status:
        scheduled = sum(members.scheduled for members in self.handle.pod_groups.members_below(group))
        counts = [scheduled + len(each.pods) for each in placed]
        if not any(counts):
            text = "no pods from pod group are assigned to any of the candidate placements"
            return Status(Code.ERROR, (text,))
        most = max(counts)
        return [count * MAX_SCORE // most for count in counts]
