"""The promises of the contract, each for the plugins that have a hook for it; and the check that asks them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from kframework.core.runtime.hooks import hooks_of
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.testing.alone import SourceValues
from kframework.testing.contract.answers import Remembered, forms_agree, scores_are_in_range
from kframework.testing.contract.instances import replays_alike, survives_reload
from kframework.testing.contract.looking import ask_all, only_looks
from kframework.testing.contract.questions import Look, Questions, Reached, Subject, on_random_clusters
from kframework.testing.contract.sorting import sort_keys_are_total_and_stable
from kframework.testing.contract.undoing import remove_pod_undoes_add_pod, unreserve_undoes_reserve
from kframework.testing.wake_ups import check_wake_ups

_PLACING = frozenset({"pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes"})
_HOLDING = frozenset({"pre_enqueue", "pre_filter", "filter", "filter_nodes", "reserve", "permit"})


class Promise(msgspec.Struct, frozen=True):
    """What a plugin promises that has one of these `hooks`; `check` raises ContractViolation where it is not kept."""

    hooks: frozenset[str]
    check: Callable[[Subject], object]

    def is_made_by(self, plugin: type[Plugin]) -> bool:
        """Return whether a plugin has a hook that this is about."""
        return not self.hooks.isdisjoint(hooks_of(plugin))


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


def _woken(subject: Subject) -> None:
    check_wake_ups(
        subject.plugin,
        args=subject.args,
        beside=subject.beside,
        nodes=subject.nodes,
        pods=subject.pods,
        objects=subject.objects,
        sources=subject.sources,
        examples=subject.examples,
        seed=subject.seed,
    )


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
    "test_no_wake_up_is_lost": Promise(_HOLDING, _woken),
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
    undone = [unreserve_undoes_reserve] * _has(subject, "test_unreserve_undoes_reserve")
    undone += [remove_pod_undoes_add_pod] * _has(subject, "test_remove_pod_undoes_add_pod")
    look = _in_turn(watched, sort_keys_are_total_and_stable, *undone)
    reached = on_random_clusters(subject, look, amid=remembered.memory_is_true, at_last=survives_reload)
    replays_alike(subject)
    return reached


def _has(subject: Subject, test: str) -> bool:
    return PROMISES[test].is_made_by(subject.plugin)


def _in_turn(*looks: Look) -> Look:
    def look(questions: Questions) -> None:
        for each in looks:
            each(questions)

    return look
