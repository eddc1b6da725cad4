"""Promises about answers: both forms say the same, scores lie in their range, what is remembered stays true."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from random import Random

import numpy as np

from kframework.core.cycle.oracle import VerificationError, verify
from kframework.core.cycle.outcome import ScheduleError
from kframework.core.cycle.plan import Layers
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.search import Search
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.testing.contract.questions import Answers, Questions, rows_of
from kframework.values.scores import MAX_SCORE

_MEMORY = 1 << 20


def forms_agree(questions: Questions) -> None:
    """Expect of the columnar forms, over rows given in several ways, what the scalar ones say of each node."""
    for pod in questions.pods:
        answers = questions.answers(pod)
        for hook, way, column in questions.columns(pod):
            scalar = hook.removesuffix("_nodes")
            for row, said in column:
                alone = answers.statuses[row] if scalar == "filter" else answers.scores[row]
                told = questions.explained(pod, said) if scalar == "filter" else said
                if told != alone:
                    answered = f"says {told} over {way}, {scalar} says {alone} of the node alone"
                    remedy = f"let {hook} and {scalar} agree: what is said of a row depends on no other row"
                    questions.violated(hook, pod, answered, remedy, row=row)


def scores_are_in_range(questions: Questions) -> None:
    """Expect final scores from 0 to 100, and that the raw ones are left as they are."""
    step = questions.score
    if step is None:
        return
    for pod in questions.pods:
        scores = questions.answers(pod).scores
        if not scores:
            continue
        hook, raw = "score", rows_of(scores.values())
        final: object = raw
        if step.normalize is not None:
            hook, given = "normalize_score", raw.copy()
            state = questions.prepared(pod, questions.nodes, rows_of(scores))
            final = questions.ask(hook, pod, step.normalize, state, pod, given)
            if not np.array_equal(given, raw):
                questions.violated(hook, pod, "changes the scores that it is given", "return new ones")
        for row, score in questions.column(hook, pod, rows_of(scores), final):
            if not 0 <= score <= MAX_SCORE:
                answered = f"{score} does not lie in 0..{MAX_SCORE}"
                remedy = "score from 0 to 100, or add normalize_score: default_normalize and min_max do it"
                questions.violated(hook, pod, answered, remedy, row=row)


class Remembered:
    """Expects that signatures, and `reads`, cover all that answers depend on; for one cluster after the other."""

    def __init__(self) -> None:
        self._of: Questions | None = None

    def __call__(self, questions: Questions) -> None:
        """Compare the answers for equal signatures, and those that are remembered with fresh ones."""
        _signed_by_no_name(questions)
        _equal_signatures_answer_equally(questions)
        self.memory_is_true(questions)

    def memory_is_true(self, questions: Questions) -> None:
        """Search as the engine does, and ask every remembered answer again."""
        if questions is not self._of:
            self._of, self._layers = questions, Layers(questions.profile, questions.nodes, _MEMORY)
        for pod in questions.pods:
            plan = self._layers.plan(questions.profile.sign(pod), pod)
            search = Search(questions.cluster.state, plan, pod, Rotation(), Random(0))
            outcome = search.run()
            if isinstance(outcome, ScheduleError):
                scores_are_in_range(questions)  # which says of scores what is wrong, and where
                questions.violated("the search", pod, outcome.status.message, "a hook answers as the contract says")
            try:
                verify(search, outcome)
            except VerificationError as error:
                answered = f"{error.what}: remembered {error.remembered}, now {error.afresh}"
                remedy = (
                    'declare what answers depend on: reads = "pods" where it is the pods of a node, no `reads` where'
                    " it is anything outside, and in `sign` all of the pod"
                )
                questions.violated("memory", pod, answered, remedy)


def _signed_by_no_name(questions: Questions) -> None:
    for pod, twin in zip(questions.pods[::2], questions.pods[1::2], strict=True):
        if _signature(questions, pod) != _signature(questions, twin):
            answered = "depends on the pod's own names or times"
            questions.violated("sign", pod, answered, "leave them out, or answer None for such a pod")


def _equal_signatures_answer_equally(questions: Questions) -> None:
    known: dict[Hashable, tuple[PendingPod, Answers]] = {}
    for pod in questions.pods:
        signature, answers = _signature(questions, pod), questions.answers(pod)
        if signature is None:
            continue
        some = questions.random.sample(
            questions.nodes.order.tolist(), questions.random.randint(1, len(questions.nodes))
        )
        others = questions.answers_given(pod, _part_of(questions.nodes, some), np.array(some))
        asked = "given other nodes, pre_filter or pre_score"
        remedy = "let neither depend on the nodes it is given, or answer None in `sign`"
        questions.same(asked, pod, others, answers, remedy)
        if answers.drew or others.drew:
            answered = "is answered, and something is drawn from handle.random"
            questions.violated("sign", pod, answered, "draw nothing, or answer None in `sign`")
        other, expected = known.setdefault(signature, (pod, answers))
        asked = f"sign, which equals that of pod {other.key}, and then everything"
        questions.same(asked, pod, answers, expected, "let `sign` include all that the answers depend on")


def _signature(questions: Questions, pod: PendingPod) -> Hashable | None:
    """Return the plugin's own signature of the pod; the same on every call."""
    profile = questions.profile
    place = profile.index.get(questions.plugin.name)
    if place is None:
        return None
    first, second = (questions.ask("sign", pod, profile.sign, pod).values[place] for _ in range(2))
    if first != second:
        answered = f"answers {first!r}, then {second!r}"
        questions.violated("sign", pod, answered, "answer values that are equal, as text, numbers and tuples of them")
    return first


def _part_of(nodes: NodeTable, rows: list[int]) -> NodeTable:
    """Return the table as if it had only these rows; its columns are the same."""
    part = copy.copy(nodes)
    part._row_of = {nodes[row].name: row for row in rows}
    part._listed = np.array(rows)
    return part
