"""Two configurations on a recording: each recorded attempt is decided by both, on the recorded state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kframework.config.configuration import Configuration
from kframework.core.cycle.records import Decision
from kframework.core.runtime.registry import Registry
from kframework.explain.causes import find_cause
from kframework.observe.recording.diff import DecisionDiff
from kframework.observe.recording.reconsider import Reconsideration
from kframework.simulation.comparison.clusters import MAX_CAUSES
from kframework.simulation.comparison.result import (
    ConfigurationComparison,
    PodChange,
    PodDifference,
    pair_nodes,
)

#: The changes with another node, or with one and without: those that scores and rejections explain.
_EXPLAINED = (PodChange.OTHER_NODE, PodChange.FITS_NOW, PodChange.FITS_NO_MORE)


def compare_recording(
    file: Path, new: Configuration, baseline: Configuration | None = None, registry: Registry | None = None
) -> ConfigurationComparison:
    """Compare the decisions of two configurations; the baseline is by default the recorded one.

    A pod that was tried several times counts with its most important difference. Raises InputError for a file that is
    no recording of the pod engine, and ConfigError for extenders, other feature gates or missing plugins.
    """
    reconsideration = Reconsideration(file, new, registry, baseline)
    differences: dict[str, PodDifference] = {}
    for diff in reconsideration:
        uid, difference = _uid(diff), _describe(diff)
        known = differences.get(uid)
        if known is None or difference.change.importance < known.change.importance:
            explained = len(differences) < MAX_CAUSES
            differences[uid] = _explain(reconsideration, uid, difference) if explained else difference
    result = reconsideration.result
    nodes, found = reconsideration.nodes, [*differences.values()]
    counted = ConfigurationComparison.from_differences("recorded", "new", len(nodes), found)
    moved = {uid: difference.new for uid, difference in differences.items()}
    return msgspec.structs.replace(
        counted,
        nodes=pair_nodes(_count_pods(nodes), _count_pods({**nodes, **moved})),
        not_repeated=result.unrepeated,
        cut_off=result.cut_off,
    )


def _count_pods(nodes: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Count the pods of each node."""
    counts = Counter(filter(None, nodes.values()))
    return {node: {"pods": counts[node]} for node in sorted(counts)}


def _uid(diff: DecisionDiff) -> str:
    decision = diff.recorded or diff.replayed
    assert isinstance(decision, Decision)
    return decision.uid


def _describe(diff: DecisionDiff) -> PodDifference:
    assert isinstance(diff.name, int)
    return PodDifference(
        pod=diff.subject,
        change=PodChange(diff.kind),
        baseline=_node(diff.recorded),
        new=_node(diff.replayed),
        message=diff.message,
        attempt=diff.name,
    )


def _node(decision: object) -> str:
    return decision.node if isinstance(decision, Decision) else ""


def _explain(reconsideration: Reconsideration, uid: str, difference: PodDifference) -> PodDifference:
    """Add the cause of a difference, while both engines have the state before it."""
    pod = reconsideration.new.pending.get(uid)
    if pod is None or difference.change not in _EXPLAINED:
        return difference
    engines = reconsideration.baseline, reconsideration.new
    cause = find_cause(*engines, pod, difference.baseline, difference.new)
    if cause is None:
        return difference
    return msgspec.structs.replace(difference, message=cause.message, cause=cause)
