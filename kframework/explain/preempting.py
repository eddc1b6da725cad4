"""Why preemption would help a pod that fits nowhere, or why it would not: dry runs that nobody remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import numpy as np

from kframework.core.cycle.rejections import PASS
from kframework.core.preemption.dry_runs import Ranked, rank
from kframework.explain.explanation import Preemption
from kframework.explain.full_evaluation import FullEvaluation
from kframework.values.status import Code

#: The plugin whose way out this tells of; what other PostFilter plugins do is theirs to tell.
PREEMPTION = "DefaultPreemption"

#: As many nodes as the plugin looks for by default: candidates in percent of the nodes, but at least so many.
PERCENTAGE, AT_LEAST = 10, 100


def preempting(evaluation: FullEvaluation) -> Generator[None, None, Preemption | None]:
    """Try preemption; None where the profile has none.

    Yields wherever it may pause.
    """
    if all(step.name != PREEMPTION for step in evaluation.profile.post_filter):
        return None
    rejection = evaluation.engine.preemption.ineligible(evaluation.pod, evaluation.diagnosis)
    if rejection is not None:
        return Preemption(why=rejection.message)
    yield
    names = _promising(evaluation)
    if not names:
        return Preemption(why="no node's rejection would go with less important pods")
    yield
    dry_run = evaluation.engine.preemption.dry_run(evaluation, evaluation.state)
    candidates, reasons, tried = list[Ranked](), Counter[str](), 0
    enough = max(len(names) * PERCENTAGE // 100, AT_LEAST)
    for node in filter(None, map(evaluation.nodes.named, names)):  # some may leave meanwhile
        tried += 1
        answer = dry_run(node)
        if isinstance(answer, Ranked):
            candidates.append(answer)
        else:
            reasons.update(answer.reasons)
        yield
        if len(candidates) >= enough:
            break
    if not candidates:
        return Preemption(why="it would make room on no node", tried=tried, reasons=dict(reasons))
    best = min(candidates, key=rank)
    return Preemption(
        node=best.node,
        victims=tuple(victim.key for victim in best.victims),
        broken_budgets=best.pdb_violations,
        tried=tried,
        candidates=len(candidates),
        reasons=dict(reasons),
    )


def _promising(evaluation: FullEvaluation) -> list[str]:
    """Name the nodes whose first rejection may go with less important pods."""
    status = evaluation.pre_filter_result.status
    if status is not None:
        return evaluation.names if status.code == Code.UNSCHEDULABLE else []
    first = evaluation.first[evaluation.rows]
    rejections = np.unique(first[first != PASS]).tolist()
    alike = [each for each in rejections if evaluation.status(each).code == Code.UNSCHEDULABLE]
    return [evaluation.names[place] for place in np.flatnonzero(np.isin(first, alike)).tolist()]
