"""The entry of the queue for a group keeps its pods in the order in which they are scheduled."""

from __future__ import annotations

from kframework.core.queue.queued_group import QueuedGroup
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, QueuedPod
from tests.support.groups import gang, members


def queued(*priorities: int) -> list[QueuedPod]:
    pods = (members("g", number + 1, priority=priority)[number] for number, priority in enumerate(priorities))
    return [QueuedPod(PendingPod(pod, TemplateInterner()), float(number)) for number, pod in enumerate(pods)]


def names(group: QueuedGroup) -> list[str]:
    assert group.pod is group.pods[0]
    return [pod.name for pod in group.pods]


def test_members_are_in_order_of_priority_then_attempts_then_time() -> None:
    low, tried, high, late = queued(1, 5, 5, 1)
    tried.attempts = 1
    group = QueuedGroup(gang("g", 2), [late, high, low], 0.0)
    assert names(group) == ["g-2", "g-0", "g-3"]
    assert group.would_lead(tried) and not group.would_lead(low)
    group.add(tried)
    assert names(group) == ["g-1", "g-2", "g-0", "g-3"]
    group.remove(tried.pod.uid)
    assert names(group) == ["g-2", "g-0", "g-3"]


def test_removed_pod_is_not_asked_about_its_gates_any_more() -> None:
    first, gated = queued(0, 0)
    group = QueuedGroup(gang("g", 2), [first, gated], 0.0)
    group.last_gated = gated
    group.remove(gated.pod.uid)
    assert group.last_gated is first
