"""Every public module, class and function says in one sentence what it is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from textwrap import dedent

import pytest

from tests.architecture.sources import listed, modules, parse

#: A function so decorated is described elsewhere: at the hook it implements, at the getter it belongs to, ...
DESCRIBED_ELSEWHERE = {"hookimpl", "override", "overload", "setter", "deleter"}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_public_names_are_documented() -> None:
    problems = [
        problem for name, path in modules().items() for problem in undocumented(name, path.read_text(), overrides)
    ]
    assert not problems, listed(problems)


def overrides(module: str, qualified_name: str) -> bool:
    """Return whether a base of the method's class has a method of that name."""
    *outer, method = qualified_name.split(".")
    owner = attrgetter(".".join(outer))(import_module(module))
    return any(method in vars(base) for base in owner.__mro__[1:])


def undocumented(module: str, source: str, overrides: Callable[[str, str], bool]) -> Iterator[str]:
    """Yield a sentence for each public name whose docstring is missing or does not start with one sentence."""
    tree = parse(source)
    for name, node, is_method in [("", tree, False), *public(tree)]:
        docstring = ast.get_docstring(node)
        if docstring is not None:
            if not starts_with_one_sentence(docstring):
                yield f"{module}: {name or 'the module'}: not one sentence with a period: {docstring.splitlines()[0]!r}"
        elif not (is_method and overrides(module, name)):
            yield f"{module}: {name or 'the module'} has no docstring"


def public(node: Documented, prefix: str = "", *, in_class: bool = False) -> Iterator[tuple[str, Documented, bool]]:
    """Yield what needs a docstring under a node: its qualified name, its own node, and whether it is a method."""
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("_"):
            continue
        if DESCRIBED_ELSEWHERE.isdisjoint(map(last_name, child.decorator_list)):
            yield prefix + child.name, child, in_class
        if isinstance(child, ast.ClassDef):
            yield from public(child, f"{prefix}{child.name}.", in_class=True)


def last_name(decorator: ast.expr) -> str:
    """Name what a decorator calls, without the module or object it comes from."""
    if isinstance(decorator, ast.Call):
        return last_name(decorator.func)
    return decorator.attr if isinstance(decorator, ast.Attribute) else ast.unparse(decorator)


def starts_with_one_sentence(docstring: str) -> bool:
    """Return whether the first line is one sentence that ends with a period."""
    first = re.sub(r"\b(e\.g|i\.e)\.", "", docstring.splitlines()[0])
    return first.endswith(".") and not re.search(r"[.!?] +[A-Z`]", first)


def never_overrides(module: str, qualified_name: str) -> bool:
    return False


@pytest.mark.parametrize(
    "source",
    [
        "class Node:\n    '''A node.'''\n    def fits(self): ...",
        "class Node:\n    '''A node.'''\n    class Row: ...",
        "async def bind(): ...",
        "@cached\ndef bind(): ...",
        "def bind():\n    '''bind'''",
        "def bind():\n    '''Bind the pod. Then tell.'''",
        "def bind():\n    '''Bind the pod\n    and tell.'''",
    ],
)
def test_missing_sentence_is_reported(source: str) -> None:
    assert len(list(undocumented("planted", f"'''Planted.'''\n{source}", never_overrides))) == 1


def test_module_without_docstring_is_reported() -> None:
    assert list(undocumented("planted", "x = 1", never_overrides)) == ["planted: the module has no docstring"]


@pytest.mark.parametrize(
    "source",
    [
        "def _private(): ...",
        "class _Private:\n    def method(self): ...",
        "class Node:\n    '''A node.'''\n    def __repr__(self): ...",
        "class Fit(Plugin):\n    '''A plugin.'''\n    @hookimpl(wrapper=True)\n    def filter(self): ...",
        "class Node:\n    '''A node.'''\n    @row.setter\n    def row(self, row): ...",
        "def bind():\n    '''Bind, e.g. Pods, at v1.36.2.\n\n    Then more. And more.'''",
    ],
)
def test_names_that_need_no_docstring_pass(source: str) -> None:
    assert list(undocumented("planted", f"'''Planted.'''\n{source}", never_overrides)) == []


def test_overriding_methods_are_exempt() -> None:
    source = dedent("""\
        '''Planted.'''
        class Row(Column):
            '''A row.'''
            def inherited(self): ...
            def new(self): ...
    """)
    problems = undocumented("planted", source, lambda module, name: name == "Row.inherited")
    assert list(problems) == ["planted: Row.new has no docstring"]


def test_overriding_is_looked_up_in_the_class() -> None:
    assert overrides("kframework.errors", "ConfigError.with_traceback")
    assert not overrides("kframework.values.status", "Status.by")
