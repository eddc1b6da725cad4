"""A Protocol has at least two implementers in the product; with one, annotations name the class itself."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, parse

#: Protocols with fewer implementers than two, each with the reason.
KEPT: Mapping[str, str] = {
    # The contract, which may not import what stands behind it.
    "Handle": "the contract of plugins, above core's PluginHandle",
    "PlacedPod": "the contract of plugins, above core's FoundNode",
    "Preemption": "the contract of plugins, above core's Evaluator",
    # What the room may not import, or only in a circle.
    "Tables": "ClusterState opens statements, so that its module imports theirs",
    # What other distributions implement.
    "Loader": "kubernetes-asyncio's reader of kubeconfigs, which is imported only for plugins that log in",
}
#: Protocols by name, with their implementers.
Lonely = dict[str, set[str]]

#: The modules of hooks: plugins implement these one by one.
HOOKS = (
    "kframework/framework/hookspecs.py",
    "kframework/framework/group_hookspecs.py",
    "src/kframework_batch/hookspecs.py",
)


class Declared:
    """What the classes of some sources declare, by name; classes of one name count together."""

    def __init__(self, sources: Iterable[str]) -> None:
        #: All that a class has, its own and its bases', as far as it is known.
        self._all: dict[str, set[str]] = {}
        self.bases: dict[str, set[str]] = defaultdict(set)
        self._members: dict[str, set[str]] = defaultdict(set)
        for source in sources:
            for node in ast.walk(parse(source)):
                if isinstance(node, ast.ClassDef):
                    self.bases[node.name] |= set(map(name_of, node.bases))
                    self._members[node.name] |= set(members(node))

    def members(self, name: str) -> set[str]:
        """Return the names of all that a class has, its own and its bases'."""
        if name not in self._all:
            self._all[name] = set(self._members.get(name, ()))  # also for a class whose base has its name
            self._all[name].update(*map(self.members, self.bases.get(name, ())))
        return self._all[name]

    def implementers(self, protocol: str) -> set[str]:
        """Return the classes that have all members of a Protocol without inheriting them from another that has."""
        wanted = self.members(protocol)
        whole = {name for name in self.bases if "Protocol" not in self.bases[name] and wanted <= self.members(name)}
        return {name for name in whole if not self.bases[name] & whole}


@pytest.fixture(name="lonely", scope="module")
def of_the_product() -> Lonely:
    return lonely_protocols(product())


def test_protocols_have_two_implementers(lonely: Lonely) -> None:
    problems = [
        f"{name} has {sorted(found) or 'none'} only: name the class itself, or say why not in {Path(__file__).name}"
        for name, found in lonely.items()
        if name not in KEPT
    ]
    assert not problems, listed(problems)


@pytest.mark.slow
def test_exceptions_are_not_stale(lonely: Lonely) -> None:
    assert KEPT.keys() <= lonely.keys()


def lonely_protocols(sources: Iterable[str]) -> Lonely:
    """Map Protocols with fewer than two implementers to those that there are."""
    declared = Declared(sources)
    protocols = (name for name, bases in declared.bases.items() if "Protocol" in bases)
    return {name: found for name in protocols if len(found := declared.implementers(name)) < 2}


def product() -> Iterator[str]:
    """Yield the sources of kframework and of the distributions beside it, without their hooks."""
    for pattern in ("kframework/**/*.py", "contrib_plugins/*/src/**/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            if not str(path).endswith(HOOKS):
                yield path.read_text()


def name_of(base: ast.expr) -> str:
    """Name a base class without its type arguments."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def members(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class defines: methods, fields, and what its methods set on `self`."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name
        elif isinstance(child, ast.AnnAssign):
            yield ast.unparse(child.target)
        elif isinstance(child, ast.Assign):
            yield from map(ast.unparse, child.targets)
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self":
            yield part.attr


PLANTED = """
class Line(Protocol):
    name: str
    def ask(self) -> bytes: ...

class HttpExtenderTransport:
    def __init__(self): self.name = "http"
    def ask(self): return b""

class TlsLine(HttpExtenderTransport):
    def ask(self): return b""
"""


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("", {"Line": {"HttpExtenderTransport"}}),
        ("class Mute:\n    name = 'mute'", {"Line": {"HttpExtenderTransport"}}),
        ("class Silent(Mute):\n    def ask(self): ...\nclass Mute:\n    name = 'mute'", {}),
    ],
)
def test_protocol_with_one_implementer_is_reported(other: str, expected: Lonely) -> None:
    assert lonely_protocols([PLANTED, other]) == expected
