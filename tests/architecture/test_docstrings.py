"""Modules, classes and what plugin authors use say in one sentence what they are for; no docstring repeats a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter
from textwrap import dedent
from types import FunctionType

import pytest

from tests.architecture.sources import listed, modules, parse
from tests.architecture.test_doors import DOORS, is_in_hall, listed_by

#: A function so decorated is described elsewhere: at the hook it implements, at the getter it belongs to, ...
DESCRIBED_ELSEWHERE = {"hookimpl", "override", "overload", "setter", "deleter"}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


#: Words of a docstring that say nothing by themselves.
FILLERS = (
    "a an the of for to from in on by with whether is are was be it its this these that those and or as at return each"
    " one any into"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_public_names_are_documented() -> None:
    problems = [
        problem
        for name, path in modules().items()
        for problem in undocumented(name, path.read_text(), overrides, is_exported)
    ]
    assert not problems, listed(problems)


def test_no_docstring_repeats_the_signature() -> None:
    problems = [
        f"{module}: {name} repeats its name: {docstring!r}"
        for module, path in modules().items()
        for name, docstring in repeated(path.read_text())
        if not is_exported(module, name)
    ]
    assert not problems, listed(problems)


def is_exported(module: str, qualified_name: str) -> bool:
    """Return whether plugin authors may use a class or function, or the method of such a class."""
    is_public_module = is_in_hall(module) or module.startswith("kframework.framework.")
    return is_public_module or (module, qualified_name.split(".")[0]) in exports()


@cache
def exports() -> set[tuple[str, str]]:
    """Return module and name of each class and function that a public package exports."""
    values = (getattr(import_module(door), name) for door in DOORS for name in listed_by(door))
    return {(value.__module__, value.__name__) for value in values if isinstance(value, type | FunctionType)}


def overrides(module: str, qualified_name: str) -> bool:
    """Return whether a base of the method's class has a method of that name."""
    *outer, method = qualified_name.split(".")
    owner = attrgetter(".".join(outer))(import_module(module))
    return any(method in vars(base) for base in owner.__mro__[1:])


def undocumented(
    module: str, source: str, overrides: Callable[[str, str], bool], is_exported: Callable[[str, str], bool]
) -> Iterator[str]:
    """Yield a sentence for each docstring that is missing or does not start with one sentence.

    A function that no public package exports may go without: its name and signature can say it all.
    """
    tree = parse(source)
    for name, node, is_method in [("", tree, False), *public(tree)]:
        docstring = ast.get_docstring(node)
        if docstring is not None:
            if not starts_with_one_sentence(docstring):
                yield f"{module}: {name or 'the module'}: not one sentence with a period: {docstring.splitlines()[0]!r}"
        elif isinstance(node, Function) and not is_exported(module, name):
            continue
        elif not (is_method and overrides(module, name)):
            yield f"{module}: {name or 'the module'} has no docstring"


def public(node: Documented, prefix: str = "", *, in_class: bool = False) -> Iterator[tuple[str, Documented, bool]]:
    """Yield what needs a docstring under a node: its qualified name, its own node, and whether it is a method."""
    for child in node.body:
        if not isinstance(child, ast.ClassDef | Function) or child.name.startswith("_"):
            continue
        if DESCRIBED_ELSEWHERE.isdisjoint(map(last_name, child.decorator_list)):
            yield prefix + child.name, child, in_class
        if isinstance(child, ast.ClassDef):
            yield from public(child, f"{prefix}{child.name}.", in_class=True)


def repeated(source: str) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of each function whose docstring has no word that its signature has not."""
    for name, function in functions(parse(source)):
        docstring = ast.get_docstring(function)
        if docstring and "\n" not in docstring and len(function.body) > 1:
            signature = f"{name} {ast.unparse(function.args)} {ast.unparse(function.returns or ast.Constant(None))}"
            if words(docstring) <= words(signature) | words(FILLERS):
                yield name, docstring


def functions(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield the functions and methods of a module with their qualified names."""
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, Function):
            yield prefix + child.name, child


def words(text: str) -> set[str]:
    """Return the words of a text or of names in it, in lower case and without their endings."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).replace("_", " ").lower()
    return {re.sub(r"(?<=\w{3})(ing|ed|es|s|e)$", "", word) for word in re.findall(r"[a-z0-9]+", spaced)}


def last_name(decorator: ast.expr) -> str:
    """Name what a decorator calls, without the module or object it comes from."""
    if isinstance(decorator, ast.Call):
        return last_name(decorator.func)
    return decorator.attr if isinstance(decorator, ast.Attribute) else ast.unparse(decorator)


def starts_with_one_sentence(docstring: str) -> bool:
    """Return whether the first line is one sentence that ends with a period."""
    first = re.sub(r"\b(e\.g|i\.e)\.", "", docstring.splitlines()[0])
    return first.endswith(".") and not re.search(r"[.!?] +[A-Z`]", first)


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
    assert len(list(undocumented("planted", f"'''Planted.'''\n{source}", is_never, is_always))) == 1


def test_module_without_docstring_is_reported() -> None:
    assert list(undocumented("planted", "x = 1", is_never, is_always)) == ["planted: the module has no docstring"]


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
    assert list(undocumented("planted", f"'''Planted.'''\n{source}", is_never, is_always)) == []


def test_overriding_methods_are_exempt() -> None:
    source = dedent("""\
        '''Planted.'''
        class Row(Column):
            '''A row.'''
            def inherited(self): ...
            def new(self): ...
    """)
    problems = undocumented("planted", source, lambda module, name: name == "Row.inherited", is_always)
    assert list(problems) == ["planted: Row.new has no docstring"]


def test_overriding_is_looked_up_in_the_class() -> None:
    assert overrides("kframework.errors", "ConfigError.with_traceback")
    assert not overrides("kframework.values.status", "Status.by")


@pytest.mark.parametrize(
    ("source", "repeats"),
    [
        ("def node_name(pod):\n    '''Return the name of the node of a pod.'''\n    return pod.node", True),
        ("class Pods:\n    def get(self, uid):\n        '''Get the pod of this uid.'''\n        return uid", True),
        ("def node_name(pod):\n    '''Return the node that a pod is bound to.'''\n    return pod.node", False),
        ("def node_name(pod):\n    '''Return the name of the node.'''", False),
    ],
)
def test_repeating_docstring_is_reported(source: str, repeats: bool) -> None:
    assert bool(list(repeated(source))) == repeats


def test_functions_outside_the_public_packages_need_no_docstring() -> None:
    source = "'''Planted.'''\ndef node_name(): ..."
    assert list(undocumented("planted", source, is_never, is_never)) == []


def is_never(module: str, qualified_name: str) -> bool:
    return False


def is_always(module: str, qualified_name: str) -> bool:
    return True
