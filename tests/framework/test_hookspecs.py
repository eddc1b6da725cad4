"""The contract as a document: every hook is specified once, explained, and belongs to a point."""

from __future__ import annotations

import inspect
from itertools import chain

import pluggy
import pytest

from kframework import Plugin
from kframework.core.runtime.hooks import POINTS, marked_hooks
from kframework.framework import hookspecs
from kframework.framework.hookspecs import SPECIFICATIONS, FilterPlugin, PostBindPlugin

HOOKS = {
    name: member
    for protocol in SPECIFICATIONS
    for name, member in vars(protocol).items()
    if hasattr(member, "kframework_spec")
}
#: Hooks that go with a point without making a plugin part of it.
BESIDE = {
    "add_pod",
    "events_to_register",
    "explain",
    "filter_more",
    "filter_status",
    "normalize_score",
    "placement_feasible",
    "pre_bind_pre_flight",
    "remove_pod",
    "sign",
    "suggest",
    "suggest_nodes",
}


def test_every_hook_belongs_to_an_extension_point() -> None:
    assert HOOKS.keys() == set(chain(*POINTS.values())) | BESIDE


def test_every_protocol_is_in_specifications() -> None:
    protocols = {name for name, value in vars(hookspecs).items() if getattr(value, "_is_protocol", False)}
    protocols.discard("Protocol")
    assert protocols == {protocol.__name__ for protocol in SPECIFICATIONS}


def test_every_protocol_has_one_hook_and_is_exported() -> None:
    assert len(SPECIFICATIONS) == len(HOOKS)
    assert sorted(hookspecs.__all__) == sorted(protocol.__name__ for protocol in SPECIFICATIONS)


def test_plugin_has_only_its_marked_hooks() -> None:
    assert not [hook for hook in HOOKS if hasattr(Plugin, hook)]


@pytest.mark.parametrize("protocol", SPECIFICATIONS)
def test_declared_protocol_does_not_implement_its_hook(protocol: type) -> None:
    declared = type("Declared", (Plugin, protocol), {"name": "Declared"})
    assert marked_hooks(declared) == {}
    (hook,) = HOOKS.keys() & vars(protocol).keys()
    arguments = inspect.signature(HOOKS[hook]).parameters
    with pytest.raises(NotImplementedError):
        HOOKS[hook](**dict.fromkeys(arguments))


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_every_hook_has_docstring_and_types(hook: str) -> None:
    signature = inspect.signature(HOOKS[hook])
    assert inspect.getdoc(HOOKS[hook])
    assert all(parameter.annotation for name, parameter in signature.parameters.items() if name != "self")
    assert signature.return_annotation is not inspect.Signature.empty


def test_pluggy_accepts_every_protocol_as_specification() -> None:
    manager = pluggy.PluginManager("kframework")
    for protocol in SPECIFICATIONS:
        manager.add_hookspecs(protocol)
    assert all(getattr(manager.hook, hook).has_spec() for hook in HOOKS)


def test_class_with_the_hook_is_an_instance_of_its_protocol() -> None:
    class Mine:
        """Only what PostBind asks for."""

        def post_bind(self, state: object, pod: object, node_name: str) -> None:
            """Take notice."""

    assert isinstance(Mine(), PostBindPlugin)
    assert not isinstance(Mine(), FilterPlugin)
