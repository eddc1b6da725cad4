"""Queued pods."""

from __future__ import annotations

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, QueuedPod
from tests.support.objects import pod


def test_rejectors_are_all_who_rejected_the_last_attempt() -> None:
    queued = QueuedPod(PendingPod(pod("p"), TemplateInterner()), timestamp=7.0)
    assert queued.rejectors == frozenset()
    queued.unschedulable_plugins, queued.pending_plugins = frozenset({"A", "B"}), frozenset({"B", "C"})
    assert queued.rejectors == {"A", "B", "C"}
    assert repr(queued) == "<QueuedPod default/p after 0 attempts>"


def test_pods_without_a_rejection_share_an_empty_record() -> None:
    one, other = (QueuedPod(PendingPod(pod(name), TemplateInterner()), timestamp=7.0) for name in "ab")
    assert one.unschedulable_plugins is one.pending_plugins is other.unschedulable_plugins
