"""Differences between the decisions of a profile and of its shadow, with the reason."""

from __future__ import annotations

from typing import Final

import msgspec

from kframework.core.cycle.oracle import weighted_scores
from kframework.core.cycle.records import Decision, Result
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.search import Search

AGREED: Final = "agreed"
OTHER_NODE: Final = "other node"
WOULD_NOT_FIT: Final = "would not fit"
WOULD_FIT: Final = "would fit"
OTHER_VICTIMS: Final = "other victims"
FAILED: Final = "failed"

#: How a shadow's decision may compare with the profile's: its plugins failed, or in which way it differs.
OUTCOMES = (AGREED, OTHER_NODE, WOULD_NOT_FIT, WOULD_FIT, OTHER_VICTIMS, FAILED)

_KINDS = {
    "": AGREED,
    "other reasons": AGREED,
    "other node": OTHER_NODE,
    "fits no more": WOULD_NOT_FIT,
    "fits now": WOULD_FIT,
    "other victims": OTHER_VICTIMS,
}


class ScoreMargin(msgspec.Struct, frozen=True, rename="camel"):
    """The weighted scores that a plugin of the shadow gives to the profile's node and to the shadow's."""

    plugin: str
    node_score: int
    shadow_score: int

    @property
    def margin(self) -> int:
        """How much better it finds the shadow's node."""
        return self.shadow_score - self.node_score


class ShadowDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that a shadow makes differently.

    Attributes:
        outcome: In which way.
        decision: The profile's decision.
        shadow_decision: The shadow's.
        reason: Why, in a few words.
        plugin: The plugin that made the difference; "" if it was none.
        margins: The scores of both nodes by plugin, the largest margin first; none unless the shadow scored both.
    """

    outcome: str
    decision: Decision
    shadow_decision: Decision
    reason: str = ""
    plugin: str = ""
    margins: tuple[ScoreMargin, ...] = ()


def compare(decision: Decision, shadow_decision: Decision, difference: str) -> str:
    """Return how a shadow's decision compares with its profile's, one of `OUTCOMES`; they differ in `difference`."""
    if shadow_decision.result is Result.ERROR:
        return AGREED if decision.result is Result.ERROR else FAILED
    return _KINDS[difference]


def explain_difference(
    outcome: str, decision: Decision, shadow_decision: Decision, search: Search | None
) -> ShadowDifference:
    """Return a difference with its reason, found on the tables as they were for both; `search` is the shadow's."""
    margins: tuple[ScoreMargin, ...] = ()
    plugin, reason = "", shadow_decision.message
    if outcome == OTHER_NODE and search is not None:
        margins = _margins(search, decision.node, shadow_decision.node)
        plugin, reason = _prefer(margins) if margins else _reject(search, decision.node)
    elif outcome == WOULD_FIT:
        plugin, reason = " ".join(decision.rejectors), decision.message
    elif outcome == OTHER_VICTIMS:
        victims = ", ".join(shadow_decision.victims)
        reason = f"preempts {victims} on {shadow_decision.nominated}" if victims else shadow_decision.message
    elif outcome == WOULD_NOT_FIT:
        plugin = " ".join(shadow_decision.rejectors)
    return ShadowDifference(
        outcome=outcome,
        decision=decision,
        shadow_decision=shadow_decision,
        reason=reason,
        plugin=plugin,
        margins=margins,
    )


def _margins(search: Search, node: str, shadow_node: str) -> tuple[ScoreMargin, ...]:
    """Return the scores of both nodes; none if the search did not compare them."""
    own, other = (search.nodes.position_in(search.feasible, name) for name in (node, shadow_node))
    if own is None or other is None:
        return ()
    scored = weighted_scores(search).items()
    margins = (ScoreMargin(plugin, int(scores[own]), int(scores[other])) for plugin, scores in scored)
    return tuple(sorted(margins, key=lambda each: -each.margin))


def _prefer(margins: tuple[ScoreMargin, ...]) -> tuple[str, str]:
    decisive = [each for each in margins if each.margin > 0]
    scores = ", ".join(f"{each.plugin} {each.node_score} → {each.shadow_score}" for each in decisive)
    totals = f"{sum(each.node_score for each in margins)} → {sum(each.shadow_score for each in margins)}"
    return decisive[0].plugin if decisive else "", f"{scores}; total {totals}" if scores else f"total {totals}"


def _reject(search: Search, node: str) -> tuple[str, str]:
    """Return why the shadow did not compare a node: a plugin rejects it, or it had enough others before."""
    filtered = search.filtered
    position = search.nodes.position_in(filtered.node_order[: search.evaluated], node)
    if position is not None and (rejection := int(filtered.rejections[position])) != PASS:
        status = search.status(rejection)
        return status.plugin, f"{node}: {status.message}"
    return "", f"{node} is not among the {search.evaluated} nodes that the shadow looked at"
