"""A class name means one thing, and names that gave way to the field's own do not come back."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from tests.architecture.sources import listed, parse
from tests.architecture.test_fragments import sources

#: Class names that two modules have, each with the reason.
SHARED = {
    "Job": "the kinds of batch/v1 and of Volcano",
    "JobSpec": "the kinds of batch/v1 and of Volcano",
    "JobStatus": "the kinds of batch/v1 and of Volcano",
    "NodeAffinity": "the field of a pod and the plugin of kube-scheduler",
    "NodeOrder": "the order of kube-scheduler's node tree and the plugin of Volcano",
    "Preempt": "the result of PostFilter and the action of Volcano",
    "Reservation": "the input of a binding cycle and the plugin of Volcano",
}

#: Names that were replaced: by what they are called now, as in the upgrade notes or in Kubernetes.
REPLACED = {
    "Asking": "Suspendable",
    "Concerns": "AffectedPods",
    "DryRuns": "DryRunResult",
    "Errand": "BackgroundTask",
    "HandledEngine": "Host",
    "Holder": "PluginKey",
    "Jointly": "AllOf",
    "KeptRoom": "NominatedRoom",
    "Laps": "AttemptTrace",
    "MakeShown": "EngineViewFactory",
    "NOBODY": "NO_PLUGINS",
    "Occurrence": "ObservedEvent",
    "OwnMessage": "EngineMessage",
    "QueueRules": "QueuePolicy",
    "ShownPod": "PodView",
    "SourceTurn": "SourceUpdate",
    "TermsAbout": "MatchingTerms",
    "Unexplainable": "ExplainError",
    "Weighed": "WeightedSelections",
    "keeps_time": "own_timeouts",
    "outranked": "lower_priority",
    "to_the_end": "shield",
    "undo_leaks": "roll_back_leaked_statements",
    "unsortable": "on_incomparable_keys",
    "whereabouts": "describe_wait",
}


def test_class_names_mean_one_thing() -> None:
    shared = shared_class_names(sources())
    assert shared.keys() <= SHARED.keys(), listed([f"{name}: {', '.join(shared[name])}" for name in shared])


def test_reasons_for_shared_names_are_not_stale() -> None:
    assert SHARED.keys() <= shared_class_names(sources()).keys()


def shared_class_names(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Map each name that several classes have to their modules."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module, text in texts.items():
        for node in ast.walk(parse(text)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_class_of_the_same_name_is_reported() -> None:
    texts = {"a": "class Queue: ...", "b": "def f():\n    class Queue: ...", "c": "class Heap: ..."}
    assert shared_class_names(texts) == {"Queue": ["a", "b"]}


def test_replaced_names_do_not_come_back() -> None:
    problems = [f"{module}: {each}" for module, text in sources().items() for each in replaced_names(text)]
    assert not problems, listed(problems)


def replaced_names(text: str) -> Iterator[str]:
    """Yield a sentence for each use of a replaced name; strings and comments do not count."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string in REPLACED:
            yield f"line {token.start[0]}: {token.string} is {REPLACED[token.string]}"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("class Occurrence: ...\n", ["line 1: Occurrence is ObservedEvent"]),
        ("x = 1\nhandle.to_the_end(x)\n", ["line 2: to_the_end is shield"]),
        ("x = 'Occurrence'  # Occurrence\n", []),
    ],
)
def test_replaced_name_is_reported(text: str, problems: list[str]) -> None:
    assert list(replaced_names(text)) == problems
