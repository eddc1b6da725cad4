"""The promise about sort keys: any two pods have an order, and it is the same whenever somebody asks."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations, permutations
from typing import Any

from kframework.clock import VIRTUAL_EPOCH
from kframework.errors import in_words
from kframework.state.queued_pod import QueuedPod
from kframework.testing.contract.questions import Questions

_REMEDY = "answer numbers and text, or tuples of these, all of one shape, that depend on the pod and its times alone"


def sort_keys_are_total_and_stable(questions: Questions) -> None:
    """Expect keys of which exactly one of less, equal and greater holds, in one direction, and always the same keys."""
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
        answered = f"{keys[one]!r} and {keys[other]!r} of pod {other.pod.key} do not compare: {in_words(error)}"
        questions.violated("queue_sort", one.pod, answered, _REMEDY, cause=error)


def _is_equal(one: Any, other: Any) -> bool:
    return bool(one == other)
