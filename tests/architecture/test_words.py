"""The field's own words: what Kubernetes has a name for goes by that name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed

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
    "DelayedTransport": "FencedTransport",
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
#: What users read is spelt as it always was: a key of JSON.
KEPT = ("`objections`", "`now.objections`", 'name="objections"', '"objections"')
#: Where the old words stand on purpose.
TOLD = ("docs/decisions", "tests", "CHANGELOG.md")

#: Words that a sentence does not need once it names who does what.
VAGUE = (
    "whoever",
    "whomever",
    "nobody",
    "to whom",
    "be it",
    "anew",
    "afresh",
    "for ever",
    "in vain",
    "had better",
    "told",
)
_VAGUE = re.compile(rf"\b({'|'.join(VAGUE)})\b", re.IGNORECASE)
#: What is quoted: code, and output of a program.
_QUOTED = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def test_docstrings_and_documents_have_no_vague_words() -> None:
    problems = [problem for path in texts() for problem in vague_words(path, path.read_text())]
    assert not problems, listed(problems)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("module.py", 'def f():\n    """Return what nobody needs."""', 1),
        ("module.py", 'def f():\n    """Return `told`."""\n    nobody = "in vain"', 0),
        ("page.md", "It is tried anew, for ever.\n```\nin vain\n```\n", 2),
    ],
)
def test_vague_word_is_reported(name: str, text: str, found: int) -> None:
    assert len(list(vague_words(Path(name), text))) == found


def vague_words(path: Path, text: str) -> Iterator[str]:
    """Yield a sentence for each vague word in a document, or in the docstrings of a module."""
    prose = [text]
    if path.suffix == ".py":
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        prose = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    for each in prose:
        for found in _VAGUE.finditer(_QUOTED.sub("", each)):
            yield f"{path}: {found[1]!r} in {each[max(0, found.start() - 40) : found.end() + 40]!r}; name who does what"


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
        ('rejections = field(name="objections")', 0),
        ("a planet", 0),
        ("arrivals", 0),
    ],
)
def test_term_of_our_own_is_reported(text: str, found: int) -> None:
    assert len(list(own_words("module.py", text))) == found


def texts() -> Iterator[Path]:
    """List the sources and the documents."""
    for pattern in ("kframework/**/*.py", "contrib_plugins/**/*.py", "docs/**/*.md", "*.md", "contrib_plugins/*/*.md"):
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
