"""The scores of every node, as kube-scheduler logs them: what each Score plugin gave, and what they came to."""

from __future__ import annotations

import logging

from kframework.core.cycle.oracle import Oracle
from kframework.core.cycle.search import Search
from kframework.values.status import Status
from kframework.verbosity import V10

_log = logging.getLogger(__name__)


def log_scores(search: Search) -> None:
    """Log the weighted scores of the nodes among which a search has just chosen, if it had a choice.

    Most of a total is remembered in one piece, so the plugins are asked again; what they draw meanwhile is taken back.
    """
    if not len(search.totals):
        return
    nodes = [search.nodes[row].name for row in search.feasible.tolist()]
    for plugin, scores in _weighted(search).items():
        for node, score in zip(nodes, scores, strict=True):
            fields = {"pod": search.pod.key, "plugin": plugin, "node": node, "score": score}
            _log.log(V10, "Plugin scored node for pod", extra=fields)
    for node, total in zip(nodes, search.totals.tolist(), strict=True):
        fields = {"pod": search.pod.key, "node": node, "score": total}
        _log.log(V10, "Calculated node's final score for pod", extra=fields)


def _weighted(search: Search) -> dict[str, list[int]]:
    """Ask again; a plugin that fails only now has its failure logged, and the attempt goes on as it would have."""
    drawn = [(plugin.handle.random, plugin.handle.random.getstate()) for plugin in search.profile.placement]
    try:
        weighted = Oracle(search.cluster, search.profile.original, search.pod).weighted(search.feasible.tolist())
    except Exception:
        _log.exception("the scores of pod %s cannot be asked for again", search.pod.key)
        return {}
    finally:
        for random, state in drawn:
            random.setstate(state)
    return {} if isinstance(weighted, Status) else weighted
