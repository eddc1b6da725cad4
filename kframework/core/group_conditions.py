"""The conditions that the scheduler writes to PodGroups."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from msgspec import to_builtins
from msgspec.structs import replace

from kframework.clock import Clock, rfc3339
from kframework.core.host import Host
from kframework.errors import ClusterError
from kframework.objects import PodGroup
from kframework.objects.pod_groups import BINDING, INITIALLY_SCHEDULED, PodGroupCondition
from kframework.state.cluster import ClusterState
from kframework.values.status import Code, Status

_log = logging.getLogger(__name__)


class GroupConditions:
    """Writes conditions of PodGroups through the host of the moment."""

    def __init__(self, cluster: ClusterState, clock: Clock, host: Callable[[], Host]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._host = host

    def report_cycle(self, group: PodGroup, status: Status) -> None:
        """Write whether a PodGroup was scheduled in a cycle; once it was, it stays so."""
        known = _conditions(self._current(group)).get(INITIALLY_SCHEDULED)
        if known is not None and known.status == "True":
            return
        is_scheduled = status.code == Code.SUCCESS
        reason = "Scheduled" if is_scheduled else "Unschedulable" if status.is_rejected else "SchedulerError"
        self._write(group, INITIALLY_SCHEDULED, is_scheduled, reason, status.message)

    def report_binding_began(self, group: PodGroup) -> None:
        """Write that pods of a gang are being bound that did not have its minimum before."""
        self._write(group, BINDING, True, "BindingBegan", "")

    def is_marked(self, group: PodGroup) -> bool:
        """Return whether its condition says that pods of a gang are being bound, or is being written."""
        known = _conditions(self._current(group)).get(BINDING)
        return known is not None and known.status == "True"

    def report_binding_ended(self, group: PodGroup, reason: str) -> None:
        """Write that a gang is not bound in part any more, if it was to be."""
        if self.is_marked(group):
            self._write(group, BINDING, False, reason, "")

    def _current(self, group: PodGroup) -> PodGroup | None:
        return self._cluster.objects(PodGroup).get(group.metadata.name, group.metadata.namespace)

    def _write(self, group: PodGroup, kind: str, is_true: bool, reason: str, message: str) -> None:
        store, current = self._cluster.objects(PodGroup), self._current(group)
        if current is None:
            return
        metadata, before, status = current.metadata, _conditions(current), "True" if is_true else "False"
        known, since = before.get(kind), rfc3339(self._clock.now())
        condition = PodGroupCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            observed_generation=metadata.generation,
            last_transition_time=known.last_transition_time if known and known.status == status else since,
        )
        if condition == known:
            return
        conditions = {**before, kind: condition}.values()
        patch = {"conditions": to_builtins([*conditions])}
        # The next cycle of the group may begin before the answer.
        store.assume(metadata, replace(current, status=replace(current.status, conditions=tuple(conditions))))

        def write() -> Awaitable[object]:
            api = self._host().api
            return api.patch_status(PodGroup, metadata.name, patch, metadata.namespace, uid=metadata.uid)

        def refused(error: ClusterError) -> None:
            _log.warning("cannot write the condition of PodGroup %s/%s: %s", metadata.namespace, metadata.name, error)
            store.restore(metadata)  # the next cycle writes it again

        self._host().write(write_key(current), write, refused)


def write_key(group: PodGroup) -> str:
    """Return the key under which the conditions of a PodGroup are written."""
    return f"PodGroup {group.metadata.namespace}/{group.metadata.name}"


def _conditions(group: PodGroup | None) -> dict[str, PodGroupCondition]:
    return {} if group is None else {each.type: each for each in group.status.conditions}
