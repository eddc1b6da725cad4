"""The promises of the contract, each for the plugins that have a hook for it, and the check of all of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
from kframework.core.runtime.hooks import POINTS, marked_hooks
from kframework.errors import format_error
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing.contract.evictions import check_evictions
from kframework.testing.contract.probe import (
    Check,
    Coverage,
    PluginAnswers,
    PluginProbe,
    PluginUnderTest,
    as_rows,
    run_check,
)
from kframework.testing.contract.repeatability import check_reload, check_replay
from kframework.testing.contract.reversal import check_remove_pod, check_unreserve
from kframework.testing.contract.side_effects import call_all_hooks, without_side_effects
from kframework.testing.single_plugin import SourceValues
from kframework.testing.wake_ups import check_wake_ups
from kframework.values.feature_gates import MINORS
from kframework.values.scores import MAX_SCORE


def _combine_checks(*checks: Check) -> Check:
    def check(probe: PluginProbe) -> None:
        for each in checks:
            each(probe)

    return check


_REMEDY = "answer numbers and text, or tuples of these, all of one shape, that depend on the pod and its times alone"


def check_sort_keys(probe: PluginProbe) -> None:
    """Expect keys that are totally ordered and stable: of less, equal and greater exactly one holds."""
    if not probe.has("queue_sort"):
        return
    queued = [QueuedPod(pod, VIRTUAL_EPOCH + probe.random.choice([0.0, 0.5, 1.0, 60.0])) for pod in probe.pods]
    keys = {each: _key(probe, each) for each in queued}
    for each in queued:
        again = _key(probe, each)
        if keys[each] != again:
            result = f"answers {keys[each]!r}, then {again!r}"
            probe.fail_hook("queue_sort", each.pod, result, _REMEDY)
    before = {(one, other): _is_before(probe, one, other, keys) for one, other in permutations(queued, 2)}
    for one, other in combinations(queued, 2):
        if before[one, other] + before[other, one] + bool(keys[one] == keys[other]) != 1:
            result = f"{keys[one]!r} and {keys[other]!r} of pod {other.pod.key} have no order"
            probe.fail_hook("queue_sort", one.pod, result, _REMEDY)
    for first, second, third in permutations(queued, 3):
        if before[first, second] and before[second, third] and not before[first, third]:
            result = f"{keys[first]!r} < {keys[second]!r} < {keys[third]!r}, but the first is not below the last"
            probe.fail_hook("queue_sort", first.pod, result, _REMEDY)


def _key(probe: PluginProbe, queued: QueuedPod) -> Any:
    key = probe.call_hook("queue_sort", queued.pod, queued)
    if key is None or not isinstance(key, Hashable):
        probe.fail_hook("queue_sort", queued.pod, f"answers {key!r}, which is no key", _REMEDY)
    return key


def _is_before(probe: PluginProbe, one: QueuedPod, other: QueuedPod, keys: dict[QueuedPod, Any]) -> bool:
    try:
        return bool(keys[one] < keys[other])
    except Exception as error:
        result = f"{keys[one]!r} and {keys[other]!r} of pod {other.pod.key} do not compare: {format_error(error)}"
        probe.fail_hook("queue_sort", one.pod, result, _REMEDY, cause=error)


_CACHE_BYTES = 1 << 20


def check_columnar_forms(probe: PluginProbe) -> None:
    """Expect the columnar forms, over several selections of rows, to answer like the scalar ones."""
    for pod in probe.pods:
        answers = probe.answers(pod)
        for hook, selection, column in probe.call_columnar_forms(pod):
            scalar = hook.removesuffix("_nodes")
            for row, answer in column:
                scalar_answer = answers.statuses[row] if scalar == "filter" else answers.scores[row]
                columnar = probe.decode_status(pod, answer) if scalar == "filter" else answer
                if columnar != scalar_answer:
                    result = f"answers {columnar} for {selection}, {scalar} answers {scalar_answer} for the node"
                    remedy = f"let {hook} and {scalar} agree: the answer for a row depends on no other row"
                    probe.fail_hook(hook, pod, result, remedy, row=row)


def check_filter_more(probe: PluginProbe) -> None:
    """Expect `filter_more` to answer like `filter` does once a like pod is on the node."""
    if probe.filter is None or probe.filter.more is None:
        return
    for pod, twin in zip(probe.pods[::2], probe.pods[1::2], strict=True):
        answers = probe.answers(pod)
        passing = answers.passing_rows(answers.statuses)
        if not passing:
            continue  # PreFilter may have rejected the pod: then PreScore may not be called
        state = probe.prepare_state(pod, probe.nodes, as_rows(answers.scores))
        for row in passing:
            arguments = state, pod, probe.nodes, np.array([row]), np.ones(1, dtype=np.int64)
            bits = probe.call_function("filter_more", pod, probe.filter.more, *arguments)
            if bits is None:
                break
            ((_, answer),) = probe.pair_rows("filter_more", pod, np.array([row]), bits)
            with probe.cluster.state.statement() as what_if:
                what_if.add(twin, probe.nodes[row].name)
                expected = probe.call_filter(state, pod, row)
            if (status := probe.decode_status(pod, answer)) != expected:
                result = f"answers {status} with 1 more pod, filter answers {expected} once it is there"
                probe.fail_hook("filter_more", pod, result, "count the added pods as those on the node", row=row)


def check_score_range(probe: PluginProbe) -> None:
    """Expect final scores from 0 to 100, and that the raw ones are not changed."""
    step = probe.score
    if step is None:
        return
    for pod in probe.pods:
        scores = probe.answers(pod).scores
        if not scores:
            continue
        hook, raw = "score", as_rows(scores.values())
        final: object = raw
        if step.normalize is not None:
            hook, argument = "normalize_score", raw.copy()
            state = probe.prepare_state(pod, probe.nodes, as_rows(scores))
            final = probe.call_function(hook, pod, step.normalize, state, pod, argument)
            if not np.array_equal(argument, raw):
                probe.fail_hook(hook, pod, "changes the scores that it gets", "return new ones")
        for row, score in probe.pair_rows(hook, pod, as_rows(scores), final):
            if not 0 <= score <= MAX_SCORE:
                result = f"{score} does not lie in 0..{MAX_SCORE}"
                remedy = "score from 0 to 100, or add normalize_score: default_normalize and min_max_normalize do it"
                probe.fail_hook(hook, pod, result, remedy, row=row)


class CacheCheck:
    """A check that signatures, and `reads`, cover all that answers depend on; for one cluster after the other."""

    def __init__(self) -> None:
        self._probe: PluginProbe | None = None

    def __call__(self, probe: PluginProbe) -> None:
        """Compare the answers for equal signatures, and cached answers with new ones."""
        for pod, twin in zip(probe.pods[::2], probe.pods[1::2], strict=True):
            if _sign(probe, pod) != _sign(probe, twin):
                result = "depends on the pod's own names or times"
                probe.fail_hook("sign", pod, result, "leave them out, or answer None for such a pod")
        _check_signatures(probe)
        self.check_cached(probe)

    def check_cached(self, probe: PluginProbe) -> None:
        """Search as the engine does, and compare every cached answer with a new one."""
        if probe is not self._probe:
            self._probe, self._plan_cache = probe, PlanCache(probe.profile, probe.nodes, _CACHE_BYTES)
        for pod in probe.pods:
            plan = self._plan_cache.plan(probe.profile.sign(pod), pod)
            search = Search(probe.cluster.state, plan, pod, Rotation(), Random(0))
            outcome = search.run()
            if isinstance(outcome, ScheduleError):
                check_score_range(probe)  # which reports what is wrong with scores, and where
                probe.fail_hook("the search", pod, outcome.status.message, "a hook answers as the contract says")
            try:
                verify(search, outcome)
            except VerificationError as error:
                result = f"{error.what}: cached {error.cached}, now {error.uncached}"
                remedy = (
                    'declare what answers depend on: reads = "pods" for the pods of a node, "domains" for numbers'
                    " of pods that `filter_domains` names, no `reads` for anything outside, and in `sign` every part"
                    " of the pod"
                )
                probe.fail_hook("cache", pod, result, remedy)


def _check_signatures(probe: PluginProbe) -> None:
    by_signature: dict[Hashable, tuple[PendingPod, PluginAnswers]] = {}
    for pod in probe.pods:
        signature, answers = _sign(probe, pod), probe.answers(pod)
        if signature is None:
            continue
        rows = probe.random.sample(probe.nodes.order.tolist(), probe.random.randint(1, len(probe.nodes)))
        part = copy.copy(probe.nodes)  # with these rows alone, and the same columns
        part._row_of = {probe.nodes[row].name: row for row in rows}
        part._rows_in_order = np.array(rows)
        # How a domain scores may depend on the nodes that are compared.
        scored = probe.nodes.order if probe.plugin.reads == "domains" else np.array(rows)
        others = probe.evaluate(pod, part, scored)
        call = "with other nodes, pre_filter or pre_score"
        remedy = "let neither depend on the nodes that it gets, or answer None in `sign`"
        probe.expect_same(call, pod, others, answers, remedy)
        if answers.is_random or others.is_random:
            result = "answers, though a hook uses handle.random"
            probe.fail_hook("sign", pod, result, "do not use it, or answer None in `sign`")
        other, expected = by_signature.setdefault(signature, (pod, answers))
        call = f"sign, which equals that of pod {other.key}, and then all hooks"
        probe.expect_same(call, pod, answers, expected, "let `sign` include all that the answers depend on")


def _sign(probe: PluginProbe, pod: PendingPod) -> Hashable | None:
    """Return the plugin's own signature of the pod; the same on every call."""
    profile = probe.profile
    position = profile.index.get(probe.plugin.name)
    if position is None:
        return None
    first, second = (probe.call_function("sign", pod, profile.sign, pod).values[position] for _ in range(2))
    if first != second:
        result = f"answers {first!r}, then {second!r}"
        probe.fail_hook("sign", pod, result, "answer values that are equal, as text, numbers and tuples of them")
    return first


_NODE_HOOKS = frozenset({"pre_filter", *POINTS["filter"], "pre_score", *POINTS["score"]})
_EARLY_HOOKS = frozenset({"pre_enqueue", "pre_filter", *POINTS["filter"], "reserve", "permit"})


class Promise(msgspec.Struct, frozen=True):
    """A promise of plugins that have one of these `hooks`; `check` raises ContractViolation if it is broken."""

    hooks: frozenset[str]
    check: Callable[[PluginUnderTest], object]

    def applies_to(self, plugin: type[Plugin]) -> bool:
        """Return whether a plugin has one of the hooks."""
        return not self.hooks.isdisjoint(marked_hooks(plugin))


def _check_cache(subject: PluginUnderTest) -> Coverage:
    check = CacheCheck()
    return run_check(subject, check, in_what_if=check.check_cached)


def _check_answers_after_reload(subject: PluginUnderTest) -> Coverage:
    def call_hooks(probe: PluginProbe) -> None:
        for pod in probe.pods:
            probe.answers(pod)

    return run_check(subject, call_hooks, afterwards=check_reload)


#: The promises, by the names of their tests.
PROMISES: Mapping[str, Promise] = {
    "test_scalar_and_columnar_forms_agree": Promise(
        frozenset({"filter_nodes", "filter_domains", "score_nodes"}), partial(run_check, check=check_columnar_forms)
    ),
    "test_added_pods_count_like_pods_on_the_node": Promise(
        frozenset({"filter_more"}), partial(run_check, check=check_filter_more)
    ),
    "test_cached_answers_stay_valid": Promise(_NODE_HOOKS, _check_cache),
    "test_scores_are_in_range": Promise(
        frozenset({"score", "score_nodes"}), partial(run_check, check=check_score_range)
    ),
    "test_unreserve_undoes_reserve": Promise(
        frozenset({"reserve", "unreserve"}), partial(run_check, check=check_unreserve)
    ),
    "test_remove_pod_undoes_add_pod": Promise(
        frozenset({"add_pod", "remove_pod"}), partial(run_check, check=check_remove_pod)
    ),
    "test_sort_keys_are_total_and_stable": Promise(
        frozenset({"queue_sort"}), partial(run_check, check=check_sort_keys)
    ),
    "test_hooks_have_no_side_effects": Promise(
        _NODE_HOOKS | _EARLY_HOOKS, partial(run_check, check=without_side_effects(call_all_hooks))
    ),
    "test_no_wake_up_is_lost": Promise(_EARLY_HOOKS, lambda subject: check_wake_ups(**msgspec.structs.asdict(subject))),
    "test_victims_make_room": Promise(frozenset({"post_filter"}), check_evictions),
    "test_new_instance_answers_alike": Promise(_NODE_HOOKS, _check_answers_after_reload),
    "test_replay_decides_alike": Promise(_NODE_HOOKS | _EARLY_HOOKS | {"queue_sort", "post_filter"}, check_replay),
}


def check_plugin(
    plugin: type[Plugin],
    *,
    args: Mapping[str, object] | None = None,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[ApiObject] = (),
    sources: SourceValues | None = None,
    minors: Sequence[str] = MINORS,
    feature_gates: Mapping[str, bool] | None = None,
    examples: int = 12,
    seed: int = 0,
) -> Coverage:
    """Check a plugin on `examples` random clusters; raise ContractViolation where it breaks the contract.

    `args` are spelled as in YAML. `nodes`, `pods` and `objects` (of all other kinds) are mixed into the clusters: give
    some that the plugin is about, and of an object that changes several versions. `sources` is what its sources hold,
    by their names. The emulated `minors` of Kubernetes take turns, with these `feature_gates`. The coverage
    shows whether every branch of the plugin was reached. The same seed makes the same calls. Wake-ups have a check of
    their own, `check_wake_ups`. Raises ConfigError for a plugin that cannot be loaded.
    """
    subject = PluginUnderTest(
        plugin=plugin,
        args=args or {},
        nodes=tuple(nodes),
        pods=tuple(pods),
        objects=tuple(objects),
        sources=sources or {},
        minors=minors,
        feature_gates=feature_gates or {},
        examples=examples,
        seed=seed,
    )
    cache_check = CacheCheck()
    guarded = without_side_effects(
        _combine_checks(check_columnar_forms, check_filter_more, check_score_range, cache_check, call_all_hooks)
    )
    reversals = [check_unreserve] * PROMISES["test_unreserve_undoes_reserve"].applies_to(plugin)
    reversals += [check_remove_pod] * PROMISES["test_remove_pod_undoes_add_pod"].applies_to(plugin)
    check = _combine_checks(guarded, check_sort_keys, *reversals)
    coverage = run_check(subject, check, in_what_if=cache_check.check_cached, afterwards=check_reload)
    if PROMISES["test_victims_make_room"].applies_to(plugin):
        check_evictions(subject)
    check_replay(subject)
    return coverage
