"""Why a pod is on its node and not on the runner-up: what each plugin contributed, and what would have changed it."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
from msgspec.structs import replace

from kframework.core.cycle.records import Decision
from kframework.core.cycle.rotation import nodes_to_find
from kframework.core.pod_engine import PodEngine
from kframework.explain.explanation import NodeChoice, ScoreLead, WeightChange
from kframework.explain.full_evaluation import FullEvaluation, evaluate
from kframework.scheduler.cooperative import run_to_end
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores

#: The largest weight that is tried.
MAX_WEIGHT = 100


def explain_choice(
    evaluation: FullEvaluation, node: str, decision: Decision | None
) -> Generator[None, None, NodeChoice | None]:
    """Compare a pod's node with the runner-up now, pausing where possible; None if there was no choice.

    The decision is None, or of another node, if the one for this node is no longer known.
    """
    if decision is None or decision.node != node:
        choice = NodeChoice(node=node, runner_up=_best_other_node(evaluation, node))
    else:
        choice = _recorded_choice(decision)
    if not choice.runner_up:
        return None
    return (yield from _compare(evaluation, choice))


def explain_decision(engine: PodEngine, pod: PendingPod, decision: Decision) -> NodeChoice | None:
    """Compare the node of a decision with the runner-up; None if there was no choice.

    The state is the one right before the decision, or right after it.
    """
    choice = _recorded_choice(decision)
    if not choice.runner_up:
        return None
    return run_to_end(_compare(evaluate(engine, pod), replace(choice, at_decision=True)))


def _recorded_choice(decision: Decision) -> NodeChoice:
    others = ((node, score) for node, score in decision.best_nodes if node != decision.node)
    runner_up, score = next(others, ("", None))
    return NodeChoice(
        node=decision.node, runner_up=runner_up, score=decision.score, runner_up_score=score, ties=decision.ties
    )


def _compare(evaluation: FullEvaluation, choice: NodeChoice) -> Generator[None, None, NodeChoice]:
    """Compare the nodes by the answers of the plugins."""
    node, runner_up = choice.node, choice.runner_up
    position, position_of_other = evaluation.position_of(node), evaluation.position_of(runner_up)
    if position is None or position_of_other is None or not len(evaluation.totals):
        choice = replace(choice, obstacle=_obstacle(evaluation, node if position is None else runner_up))
    else:
        choice = replace(
            choice,
            total=int(evaluation.totals[position]),
            runner_up_total=int(evaluation.totals[position_of_other]),
            leads=_leads(evaluation, node, runner_up),
            weight_changes=(yield from _weight_changes(evaluation, position_of_other)),
        )
    message = " ".join([*_sentences(choice), *_weight_sentence(evaluation, choice)])
    return replace(choice, message=message)


def _best_other_node(evaluation: FullEvaluation, node: str) -> str:
    best = np.argsort(-evaluation.totals, kind="stable")[:2].tolist()
    names = (evaluation.nodes[int(evaluation.feasible[position])].name for position in best)
    return next((name for name in names if name != node), "")


def _obstacle(evaluation: FullEvaluation, node: str) -> str:
    if evaluation.fault is not None:
        return evaluation.fault.message
    rejection = evaluation.rejection_of(node)
    if rejection is not None:
        return f"{rejection.plugin} rejects {node}: {rejection.message}"
    return f"there is no node {node}"


def _is_sampled(evaluation: FullEvaluation) -> bool:
    """Whether an attempt compares only a part of the feasible nodes."""
    percentage = evaluation.profile.percentage_of_nodes_to_score
    return len(evaluation.feasible) > nodes_to_find(len(evaluation.candidate_rows), percentage)


def _leads(evaluation: FullEvaluation, node: str, runner_up: str) -> tuple[ScoreLead, ...]:
    weights = {column.plugin: column.weight for column in evaluation.scores}
    leads = evaluation.leads(node, runner_up).items()
    found = [ScoreLead(plugin, weights[plugin], lead) for plugin, lead in leads if lead]
    return tuple(sorted(found, key=lambda each: -abs(each.lead)))


# -- other weights -----------------------------------------------------------------------------------------------------


def _weight_changes(evaluation: FullEvaluation, position: int) -> Generator[None, None, tuple[WeightChange, ...]]:
    """Return the changes of one weight that put the pod on the node at a position, smallest first, to 0 last."""
    if evaluation.engine.extenders is not None:
        return ()  # their scores are not known
    changes: list[WeightChange] = []
    for column in evaluation.scores:
        yield
        weight = find_weight(evaluation.totals, column.normalized, column.weight, position)
        if weight is not None and weight != column.weight:
            changes.append(WeightChange(column.plugin, column.weight, weight))
    return tuple(sorted(changes, key=lambda each: (not each.new_weight, abs(each.new_weight - each.weight))))


def find_weight(totals: Scores, scores: Scores, weight: int, position: int) -> int | None:
    """Find the weight of these scores, nearest to its own, with which a position has the largest total alone.

    Returns None if there is none from 0 to `MAX_WEIGHT`. `totals` have the scores in them.
    """
    others = np.arange(len(totals)) != position
    leads = (totals[position] - totals)[others]
    # What one more of weight adds to the leads.
    gains = (scores[position] - scores)[others]
    if (leads[gains == 0] <= 0).any():
        return None
    rising, falling = gains > 0, gains < 0
    # A lead that rises has to exceed 0: it does from `lead + change * gain > 0` on, and the reverse if it falls.
    least = (-leads[rising] // gains[rising] + 1).max(initial=-weight)
    most = (-(leads[falling] // gains[falling]) - 1).min(initial=MAX_WEIGHT - weight)
    return None if least > most else weight + int(min(max(least, 0), most))


# -- the paragraph -----------------------------------------------------------------------------------------------------


def _sentences(choice: NodeChoice) -> Iterator[str]:
    if choice.score is None or choice.runner_up_score is None:
        yield "The decision is no longer known."
        yield _format_answers(choice, "Now ")
    else:
        recorded = _format_totals(choice, "had", choice.score, choice.runner_up_score)
        recorded += f"; it was drawn from {choice.ties} nodes with this score" if choice.ties > 1 else ""
        if not choice.at_decision:
            yield f"At the decision {recorded}."
            yield _format_answers(choice, "Now ")
        elif (choice.score, choice.runner_up_score) == (choice.total, choice.runner_up_total):
            yield f"{recorded}{_format_leads(choice)}."
        else:
            yield f"{recorded}."
            yield _format_answers(choice, "By the plugins' scores on all nodes at that moment, ")


def _format_answers(choice: NodeChoice, when: str) -> str:
    """Write what the plugins answer on the evaluated state."""
    if choice.total is None or choice.runner_up_total is None:
        return f"{when}{choice.obstacle}."
    verb = "had" if choice.at_decision else "has"
    return f"{when}{_format_totals(choice, verb, choice.total, choice.runner_up_total)}{_format_leads(choice)}."


def _format_totals(choice: NodeChoice, verb: str, score: int, other_score: int) -> str:
    if score == other_score:
        return f"{choice.node} {verb} {score} points, as many as {choice.runner_up}"
    return f"{choice.node} {verb} {score} points, {choice.runner_up} {other_score}"


def _format_leads(choice: NodeChoice) -> str:
    """Write `: A gave node 11 more, B 3 more; C gave other 5 more`."""
    clauses, verb = list[str](), "gave" if choice.at_decision else "gives"
    for node, sign in ((choice.node, 1), (choice.runner_up, -1)):
        favourable = [(each.plugin, each.lead * sign) for each in choice.leads if each.lead * sign > 0]
        if favourable:
            (plugin, lead), *others = favourable
            more = (f", {plugin} {lead} more" for plugin, lead in others)
            clauses.append(f"{plugin} {verb} {node} {lead} more{''.join(more)}")
    return f": {'; '.join(clauses)}" if clauses else ""


def _weight_sentence(evaluation: FullEvaluation, choice: NodeChoice) -> Iterator[str]:
    """Write with which weight it would be on the runner-up, unless it would be there anyway or nothing is known."""
    have, gone = ("have ", "gone") if choice.at_decision else ("", "go")
    condition = " if all nodes were compared" if _is_sampled(evaluation) else ""
    condition = f"{'' if choice.at_decision else ' now'}{condition}"
    if choice.weight_changes:
        yield f"{_format_change(choice.weight_changes[0])} it would {have}{gone} to {choice.runner_up}{condition}."
    elif evaluation.engine.extenders is None and (choice.total or 0) > (choice.runner_up_total or 0):
        made = "have made" if choice.at_decision else "make"
        yield f"No other weight of a single plugin would {made} {choice.runner_up} the only best node{condition}."


def _format_change(change: WeightChange) -> str:
    if not change.new_weight:
        return f"Without the scores of {change.plugin}"
    return f"With weight {change.new_weight} instead of {change.weight} for {change.plugin}"
