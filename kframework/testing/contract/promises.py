"""The promises of the contract, each for the plugins that have a hook for it; and the check that asks them all."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import combinations, permutations
from random import Random
from typing import Any

import msgspec
import numpy as np

from kframework.clock import VIRTUAL_EPOCH
from kframework.core.cycle.oracle import VerificationError, verify
from kframework.core.cycle.plan import PlanCache
from kframework.core.cycle.results import ScheduleError
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.search import Search
from kframework.core.runtime.hooks import marked_hooks
from kframework.errors import format_error
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing.alone import SourceValues
from kframework.testing.contract.instances import replays_alike, survives_reload
from kframework.testing.contract.looking import ask_all, only_looks
from kframework.testing.contract.questions import (
    Answers,
    Look,
    Questions,
    Reached,
    Subject,
    on_random_clusters,
    rows_of,
)
from kframework.testing.contract.undoing import remove_pod_undoes_add_pod, unreserve_undoes_reserve
from kframework.testing.wake_ups import check_wake_ups
from kframework.values.scores import MAX_SCORE


def _in_turn(*looks: Look) -> Look:
    def look(questions: Questions) -> None:
        for each in looks:
            each(questions)

    return look


_REMEDY = "answer numbers and text, or tuples of these, all of one shape, that depend on the pod and its times alone"


def sort_keys_are_total_and_stable(questions: Questions) -> None:
    """Expect keys that are totally ordered and stable: of less, equal and greater exactly one holds."""
    if not questions.has("queue_sort"):
        return
    queued = [QueuedPod(pod, VIRTUAL_EPOCH + questions.random.choice([0.0, 0.5, 1.0, 60.0])) for pod in questions.pods]
    keys = {each: _key(questions, each) for each in queued}
    for each in queued:
        again = _key(questions, each)
        if not _is_equal(keys[each], again):
            answered = f"answers {keys[each]!r}, then {again!r}"
            questions.violated("queue_sort", each.pod, answered, _REMEDY)
    before = {(one, other): _is_before(questions, one, other, keys) for one, other in permutations(queued, 2)}
    for one, other in combinations(queued, 2):
        if before[one, other] + before[other, one] + _is_equal(keys[one], keys[other]) != 1:
            answered = f"{keys[one]!r} and {keys[other]!r} of pod {other.pod.key} have no order"
            questions.violated("queue_sort", one.pod, answered, _REMEDY)
    for first, second, third in permutations(queued, 3):
        if before[first, second] and before[second, third] and not before[first, third]:
            answered = f"{keys[first]!r} < {keys[second]!r} < {keys[third]!r}, but the first is not below the last"
            questions.violated("queue_sort", first.pod, answered, _REMEDY)


def _key(questions: Questions, queued: QueuedPod) -> Any:
    key = questions.said("queue_sort", queued.pod, queued)
    if key is None or not isinstance(key, Hashable):
        questions.violated("queue_sort", queued.pod, f"answers {key!r}, which is no key", _REMEDY)
    return key


def _is_before(questions: Questions, one: QueuedPod, other: QueuedPod, keys: dict[QueuedPod, Any]) -> bool:
    try:
        return bool(keys[one] < keys[other])
    except Exception as error:
        answered = f"{keys[one]!r} and {keys[other]!r} of pod {other.pod.key} do not compare: {format_error(error)}"
        questions.violated("queue_sort", one.pod, answered, _REMEDY, cause=error)


def _is_equal(one: Any, other: Any) -> bool:
    return bool(one == other)


_MEMORY = 1 << 20


def forms_agree(questions: Questions) -> None:
    """Expect the columnar forms, over rows given in several ways, to answer like the scalar ones."""
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
        for pod, twin in zip(questions.pods[::2], questions.pods[1::2], strict=True):
            if _signature(questions, pod) != _signature(questions, twin):
                answered = "depends on the pod's own names or times"
                questions.violated("sign", pod, answered, "leave them out, or answer None for such a pod")
        _equal_signatures_answer_equally(questions)
        self.memory_is_true(questions)

    def memory_is_true(self, questions: Questions) -> None:
        """Search as the engine does, and ask every remembered answer again."""
        if questions is not self._of:
            self._of, self._layers = questions, PlanCache(questions.profile, questions.nodes, _MEMORY)
        for pod in questions.pods:
            plan = self._layers.plan(questions.profile.sign(pod), pod)
            search = Search(questions.cluster.state, plan, pod, Rotation(), Random(0))
            outcome = search.run()
            if isinstance(outcome, ScheduleError):
                scores_are_in_range(questions)  # which reports what is wrong with scores, and where
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


def _equal_signatures_answer_equally(questions: Questions) -> None:
    known: dict[Hashable, tuple[PendingPod, Answers]] = {}
    for pod in questions.pods:
        signature, answers = _signature(questions, pod), questions.answers(pod)
        if signature is None:
            continue
        some = questions.random.sample(
            questions.nodes.order.tolist(), questions.random.randint(1, len(questions.nodes))
        )
        part = copy.copy(questions.nodes)  # with these rows alone, and the same columns
        part._row_of = {questions.nodes[row].name: row for row in some}
        part._rows_in_order = np.array(some)
        others = questions.answers_given(pod, part, np.array(some))
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


_PLACING = frozenset({"pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes"})
_HOLDING = frozenset({"pre_enqueue", "pre_filter", "filter", "filter_nodes", "reserve", "permit"})


class Promise(msgspec.Struct, frozen=True):
    """A promise of plugins that have one of these `hooks`; `check` raises ContractViolation if it is broken."""

    hooks: frozenset[str]
    check: Callable[[Subject], object]

    def is_made_by(self, plugin: type[Plugin]) -> bool:
        """Return whether a plugin has a hook that this is about."""
        return not self.hooks.isdisjoint(marked_hooks(plugin))


def _remembered(subject: Subject) -> Reached:
    remembered = Remembered()
    return on_random_clusters(subject, remembered, amid=remembered.memory_is_true)


def _looked_at(look: Look) -> Callable[[Subject], Reached]:
    return partial(on_random_clusters, look=look)


def _reloaded(subject: Subject) -> Reached:
    def ask(questions: Questions) -> None:
        for pod in questions.pods:
            questions.answers(pod)

    return on_random_clusters(subject, ask, at_last=survives_reload)


#: The promises, by the names of their tests.
PROMISES: Mapping[str, Promise] = {
    "test_scalar_and_columnar_forms_agree": Promise(
        frozenset({"filter_nodes", "score_nodes"}), _looked_at(forms_agree)
    ),
    "test_remembered_answers_stay_true": Promise(_PLACING, _remembered),
    "test_scores_are_in_range": Promise(frozenset({"score", "score_nodes"}), _looked_at(scores_are_in_range)),
    "test_unreserve_undoes_reserve": Promise(frozenset({"reserve", "unreserve"}), _looked_at(unreserve_undoes_reserve)),
    "test_remove_pod_undoes_add_pod": Promise(
        frozenset({"add_pod", "remove_pod"}), _looked_at(remove_pod_undoes_add_pod)
    ),
    "test_sort_keys_are_total_and_stable": Promise(
        frozenset({"queue_sort"}), _looked_at(sort_keys_are_total_and_stable)
    ),
    "test_hooks_only_look": Promise(_PLACING | _HOLDING, _looked_at(only_looks(ask_all))),
    "test_no_wake_up_is_lost": Promise(_HOLDING, lambda subject: check_wake_ups(**msgspec.structs.asdict(subject))),
    "test_an_instance_made_anew_says_the_same": Promise(_PLACING, _reloaded),
    "test_a_replay_says_the_same": Promise(_PLACING | _HOLDING | {"queue_sort", "post_filter"}, replays_alike),
}


def check_plugin(
    plugin: type[Plugin],
    *,
    args: Mapping[str, object] | None = None,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[ApiObject] = (),
    sources: SourceValues | None = None,
    examples: int = 12,
    seed: int = 0,
) -> Reached:
    """Ask a plugin about `examples` random clusters; raise ContractViolation where it breaks the contract.

    `args` are spelled as in YAML. `nodes`, `pods` and `objects` (of all other kinds) are mixed into the clusters: give
    some that the plugin is about, and of an object that changes several versions. `sources` is what its sources hold,
    by their names. See from the answer that the questions met every branch of the plugin. The same seed asks the same
    questions. Wake-ups have a check of their own, `check_wake_ups`. Raises ConfigError for a plugin that cannot be
    loaded.
    """
    subject = Subject(
        plugin=plugin,
        args=args or {},
        nodes=tuple(nodes),
        pods=tuple(pods),
        objects=tuple(objects),
        sources=sources or {},
        examples=examples,
        seed=seed,
    )
    remembered = Remembered()
    watched = only_looks(_in_turn(forms_agree, scores_are_in_range, remembered, ask_all))
    undone = [unreserve_undoes_reserve] * PROMISES["test_unreserve_undoes_reserve"].is_made_by(plugin)
    undone += [remove_pod_undoes_add_pod] * PROMISES["test_remove_pod_undoes_add_pod"].is_made_by(plugin)
    look = _in_turn(watched, sort_keys_are_total_and_stable, *undone)
    reached = on_random_clusters(subject, look, amid=remembered.memory_is_true, at_last=survives_reload)
    replays_alike(subject)
    return reached
