"""Why two configurations choose different nodes for a pod, found by evaluating both on the same state."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kframework.core.pod_engine import PodEngine
from kframework.explain.full_evaluation import FullEvaluation, evaluate
from kframework.state.pods import PendingPod
from kframework.values.status import Status


class Origin(StrEnum):
    """The origin of a difference between two configurations."""

    #: Their plugins answer differently.
    CONFIGURATION = "configuration"
    #: Both would decide alike on this state, which differs because other pods have gone elsewhere.
    EARLIER_PODS = "earlier pods"
    #: Both nodes are equally good in both configurations.
    CHANCE = "chance"
    #: The baseline's node was not among those that were examined (percentageOfNodesToScore).
    SAMPLE = "sample"


class ScoreChange(msgspec.Struct, frozen=True):
    """The lead of the new node over the baseline's node in the weighted scores of a plugin, in both configurations.

    A lead is None if the configuration does not score with the plugin.
    """

    plugin: str
    baseline: int | None
    new: int | None

    @property
    def gain(self) -> int:
        """What the new node gains by the change."""
        return (self.new or 0) - (self.baseline or 0)


class DifferenceCause(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a pod is elsewhere under the new configuration.

    Attributes:
        origin: Whether the configurations differ, or only the state.
        plugin: The plugin that decided; "" if none did.
        reason: Why it rejects a node; "" if its score decided.
        message: The whole reason as a sentence, with nodes and scores.
        scores: The leads of the new node by plugin, those that changed most first; of plugins with any.
    """

    origin: Origin
    plugin: str = ""
    reason: str = ""
    message: str
    scores: tuple[ScoreChange, ...] = ()

    @property
    def summary(self) -> str:
        """The reason without nodes and numbers, by which pods are counted."""
        if self.origin is not Origin.CONFIGURATION:
            return _SUMMARIES[self.origin]
        return f"{self.plugin}: {self.reason or 'scores'}" if self.plugin else self.reason


_SUMMARIES = {
    Origin.EARLIER_PODS: "earlier pods went elsewhere",
    Origin.CHANCE: "equal scores, drawn by chance",
    Origin.SAMPLE: "another part of the nodes was examined",
}


def find_cause(
    baseline: PodEngine, new: PodEngine, pod: PendingPod, baseline_node: str, new_node: str
) -> DifferenceCause | None:
    """Find out why a pod that goes to one node under a baseline goes to another, "" for none; None if unknown.

    Both engines share the state right before the decision of the new one.
    """
    if pod.scheduler_name not in baseline.profiles or pod.scheduler_name not in new.profiles:
        return None
    before, after = (evaluate(engine, pod) for engine in (baseline, new))
    if before.fault is not None or after.fault is not None:
        return None
    if not baseline_node:
        return _explain_new_room(before, new_node)
    rejection = after.rejection_of(baseline_node)
    if rejection is not None:
        return _explain_rejection(before, rejection, baseline_node)
    if not new_node:
        return None  # Reserve, Permit or its group rejected it
    rejection = before.rejection_of(new_node)
    if rejection is not None:
        return _lifted(rejection, new_node)
    return _compare_scores(before, after, baseline_node, new_node)


def _explain_new_room(before: FullEvaluation, node: str) -> DifferenceCause:
    """Explain a pod that the baseline left pending."""
    rejection = before.rejection_of(node)
    if rejection is not None:
        return _lifted(rejection, node)
    return DifferenceCause(origin=Origin.EARLIER_PODS, message=f"{node} has room, as earlier pods went elsewhere")


def _lifted(rejection: Status, node: str) -> DifferenceCause:
    message = f"in the baseline {rejection.plugin} rejects {node}: {rejection.message}"
    return DifferenceCause(
        origin=Origin.CONFIGURATION,
        plugin=rejection.plugin,
        reason=f"no longer rejects: {rejection.message}",
        message=message,
    )


def _explain_rejection(before: FullEvaluation, rejection: Status, node: str) -> DifferenceCause:
    """Explain a pod that can no longer go to the baseline's node."""
    origin, addition = Origin.CONFIGURATION, ""
    if before.rejection_of(node) is not None:
        origin, addition = Origin.EARLIER_PODS, ", as earlier pods went elsewhere"
    message = f"{rejection.plugin} rejects {node}: {rejection.message}{addition}"
    return DifferenceCause(origin=origin, plugin=rejection.plugin, reason=rejection.message, message=message)


def _compare_scores(
    before: FullEvaluation, after: FullEvaluation, baseline_node: str, new_node: str
) -> DifferenceCause:
    old_leads, leads = (each.leads(new_node, baseline_node) for each in (before, after))
    plugins = [name for name in {**leads, **old_leads} if old_leads.get(name) or leads.get(name)]
    changes = [ScoreChange(name, old_leads.get(name), leads.get(name)) for name in plugins]
    changes.sort(key=lambda change: -abs(change.gain))
    old_lead, lead = sum(old_leads.values()), sum(leads.values())
    if lead < 0:
        message = f"{baseline_node} was not among the nodes that were examined"
        return DifferenceCause(origin=Origin.SAMPLE, message=message, scores=tuple(changes))
    if lead == old_lead == 0:
        message = f"{baseline_node} and {new_node} are equally good: one was drawn"
        return DifferenceCause(origin=Origin.CHANCE, message=message, scores=tuple(changes))
    if old_lead > 0 or before.rejection_of(baseline_node) is not None:
        change = max(changes, key=lambda each: each.new or 0)
        message = f"{change.plugin} scores {new_node} {_format_lead(change.new)} {baseline_node} in both configurations"
        addition = ", as earlier pods went elsewhere"
        return DifferenceCause(
            origin=Origin.EARLIER_PODS, plugin=change.plugin, message=message + addition, scores=tuple(changes)
        )
    change = max(changes, key=lambda each: each.gain)
    message = _format_change(change, baseline_node, new_node)
    return DifferenceCause(origin=Origin.CONFIGURATION, plugin=change.plugin, message=message, scores=tuple(changes))


def _format_change(change: ScoreChange, baseline_node: str, new_node: str) -> str:
    if change.new is None:
        lead = f"{new_node} {_format_lead(change.baseline)} {baseline_node}"
        return f"{change.plugin} no longer scores; in the baseline it scores {lead}"
    scored = f"{change.plugin} scores {new_node} {_format_lead(change.new)} {baseline_node}"
    before = "not scored" if change.baseline is None else _format_lead(change.baseline).removesuffix(" to")
    return f"{scored} (baseline: {before})"


def _format_lead(lead: int | None) -> str:
    return f"{abs(lead)} {'above' if lead > 0 else 'below'}" if lead else "equal to"
