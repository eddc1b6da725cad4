"""The field's own words: what Kubernetes has a name for goes by that name."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, parse

#: A word of our own that was used for what the field has a word for, and that word. Only distinctive ones stand here.
OURS = {
    "objection": "rejection",
    "Narrowing": "PreFilterResult",
    "choosy": "needs_scoring",
    "Unfit": "FitError",
    "Laps": "AttemptTrace",
    "PluginStopwatch": "AttemptTrace",
    "Afresh": "Oracle",
    "Inquiry": "FullEvaluation",
    "Survey": "AllNodesSearch",
    "Onlookers": "Observers",
    "Audience": "Observers",
    "Nowhere": "Host",
    "GatedTransport": "FencedTransport",
    "Lane": "KeyedWriteQueue",
    "Shelf": "KindStore",
    "Misfit": "UndecodableObject",
    "refusals": "api_errors",
    "Wishes": "IncomingTerms",
    "encounters": "existing_terms",
    "unwelcome": "existing_anti_affinity",
    "HeldTerm": "ExistingTerm",
    "Errands": "BackgroundWrites",
    "Clearing": "VictimSelection",
    "Outlook": "NodeScores",
    "rivals": "nominated pods",
    "Tell whether": "Return whether",
}
_OURS = re.compile(rf"(?<![A-Za-z])({'|'.join(OURS)})s?(?![a-z])")
#: A name of Kubernetes.
KEPT = ("ClearingNominatedNodeNameAfterBinding",)
#: Where the old words stand on purpose.
TOLD = ("docs/decisions", "tests", "CHANGELOG.md")

#: A name of before version 2 of the contract, and the one that replaced it. No product code uses them again.
RENAMED = {
    # Words of everyday speech that named anything: `place` alone meant six things.
    "ahead": "a noun",
    "aside": "isolated",
    "ask": "call",
    "asked": "called or requested",
    "beside": "a noun",
    "of": "from_..., for_... or get",
    "place": "position, location, path, key or index",
    "places": "positions, locations, paths, keys or indices",
    "said": "answer, message or text",
    "say": "notify_user",
    "told": "recorded or notified",
    "within": "a noun",
    # Names of single things.
    "Accounting": "AccountObserver",
    "Activated": "ActivateRequested",
    "Asking": "Suspendable",
    "BEYOND_HELP": "UNFIXABLE",
    "BesideNominated": "NominatedRejections",
    "Changed": "Upserted",
    "Concluded": "AttemptResult",
    "Disagreement": "DecisionDiff",
    "Done": "Completed",
    "DryRuns": "DryRunResult",
    "Efforts": "ChangeEstimates",
    "EngineHost": "Host",
    "Errand": "BackgroundTask",
    "Extending": "ExtenderClient",
    "FrozenCounts": "CountsSnapshot",
    "Gone": "Deleted",
    "Holder": "PluginKey",
    "HttpLine": "HttpExtenderTransport",
    "Jointly": "AllOf",
    "Looked": "FilterOutcome",
    "NOBODY": "NO_PLUGINS",
    "Occurrence": "ObservedEvent",
    "OwnMessage": "EngineMessage",
    "Preempting": "OngoingPreemptions",
    "Prospects": "NodeRanking",
    "Reach": "VolumeTopology",
    "Shown": "EngineView",
    "SourceTurn": "SourceUpdate",
    "StandingClock": "FrozenClock",
    "Telling": "HookTracer",
    "Touched": "AnswersInvalidated",
    "Trials": "WhatIf",
    "Unexplainable": "ExplainError",
    "came_to_nothing": "reject_result",
    "in_slices": "time_sliced",
    "keeps_time": "own_timeouts",
    "look_for_a_way_out": "run_post_filter",
    "says_the_same": "is_equivalent",
    "takes_as_much_as": "has_same_requests",
    "tell_until": "replay_until",
    "to_the_end": "shield",
    "under_way": "in_progress",
    "undo_leaks": "roll_back_leaked_statements",
    "whereabouts": "describe_wait",
}

#: Words that a sentence does not need once it names who does what.
VAGUE = (
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "to whom",
    "be it",
    "anew",
    "afresh",
    "for ever",
    "in vain",
    "had better",
    "of which",
    "passed over",
    "so many",
    "stands",
    "told",
)
_VAGUE = re.compile(rf"\b({'|'.join(VAGUE)})\b", re.IGNORECASE)
#: What is quoted: code, and output of a program.
_QUOTED = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def test_texts_and_documents_have_no_vague_words() -> None:
    problems = [problem for path in texts() for problem in vague_words(path, path.read_text())]
    assert not problems, listed(problems)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("module.py", 'def f():\n    """Return what nobody needs."""', 1),
        ("module.py", 'def f():\n    """Return `told`."""\n    nobody = "anew"', 0),
        ("module.py", 'raise ConfigError(f"{name} is passed over")', 1),
        ("module.py", '_log.warning("retried in vain: %s", pod)', 1),
        ("module.py", 'typer.Option(help="Who is told that a pod is bound.")', 1),
        ("page.md", "It is tried anew, for ever.\n```\nin vain\n```\n", 2),
        ("page.md", "Here stands a list of so many pods, of which one waits.", 3),
    ],
)
def test_vague_word_is_reported(name: str, text: str, found: int) -> None:
    assert len(list(vague_words(Path(name), text))) == found


def vague_words(path: Path, text: str) -> Iterator[str]:
    """Yield a sentence for each vague word in a document, or in the docstrings, messages and help texts of a module."""
    for each in prose_of(parse(text)) if path.suffix == ".py" else [text]:
        for found in _VAGUE.finditer(_QUOTED.sub("", each)):
            yield f"{path}: {found[1]!r} in {each[max(0, found.start() - 40) : found.end() + 40]!r}; name who does what"


def prose_of(module: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, and all other strings with a blank: messages, help texts, ..."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def test_terms_of_the_field_are_used() -> None:
    problems = [problem for path in texts() for problem in own_words(str(path.relative_to(ROOT)), path.read_text())]
    assert not problems, listed(problems)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the first objection to a node", 1),
        ("class PluginStopwatch:", 1),
        ("def rivals(self): ...", 1),
        ("the first rejection of a node", 0),
        ("a planet", 0),
        ("arrivals", 0),
    ],
)
def test_term_of_our_own_is_reported(text: str, found: int) -> None:
    assert len(list(own_words("module.py", text))) == found


def texts() -> Iterator[Path]:
    """List the sources and the documents."""
    sources = ("kframework/**/*.py", "contrib_plugins/**/*.py", "benchmarks/*.py", "examples/**/*.py")
    for pattern in (*sources, "docs/**/*.md", "*.md", "contrib_plugins/**/*.md", "examples/**/*.md", "deploy/*.md"):
        for path in sorted(ROOT.glob(pattern)):
            place = path.relative_to(ROOT)
            if not str(place).startswith(TOLD) and "tests" not in place.parts:
                yield path


def own_words(name: str, text: str) -> Iterator[str]:
    """Yield a sentence for each word of our own, alone or as a part of a name."""
    for number, line in enumerate(text.splitlines(), start=1):
        for kept in KEPT:
            line = line.replace(kept, "")
        for found in _OURS.finditer(line):
            yield f"{name}, line {number}: {found[1]!r}; the field says {OURS[found[1]]!r}"


def test_renamed_names_are_not_used() -> None:
    paths = [path for path in texts() if path.suffix == ".py"]
    problems = [problem for path in paths for problem in renamed_names(str(path.relative_to(ROOT)), path.read_text())]
    assert not problems, listed(problems)


def test_renamed_name_is_reported() -> None:
    planted = "class Gone:\n    under_way = under\nhandle.to_the_end(work)  # Changed\nplace = 1\n"
    assert [problem.partition(";")[0] for problem in renamed_names("module.py", planted)] == [
        "module.py, line 1: 'Gone'",
        "module.py, line 2: 'under_way'",
        "module.py, line 3: 'to_the_end'",
        "module.py, line 4: 'place'",
    ]


def renamed_names(name: str, source: str) -> Iterator[str]:
    """Yield a sentence for each identifier of a module that has been renamed."""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in RENAMED:
            yield f"{name}, line {token.start[0]}: {token.string!r}; it is {RENAMED[token.string]!r} now"
