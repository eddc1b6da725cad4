"""Programs: actions and tiers of plugins made from a configuration, and what is said of what cannot be made."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import pytest
from kframework_batch.action import Action
from kframework_batch.config import default_configuration, parse
from kframework_batch.job import JobInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.program import BatchRegistry, Program, compile_program
from kframework_batch.session import Session
from pydantic import Field

from kframework.core.runtime.registry import Offer
from kframework.errors import ConfigError, PluginError


class PushArguments(BatchArguments):
    most: int = Field(10, alias="maxPushes", ge=1)
    careful: bool = True


class Push(Action):
    name: ClassVar[str] = "push"
    Arguments: ClassVar[type[BatchArguments]] = PushArguments

    def run(self, session: Session) -> Iterator[None]:
        yield


class Wait(Action):
    name: ClassVar[str] = "wait"

    def run(self, session: Session) -> Iterator[None]:
        yield


class PackArguments(BatchArguments):
    weight: float = Field(1.0, alias="pack.weight")
    resources: str = Field("", alias="pack.resources")


class Pack(BatchPlugin):
    name: ClassVar[str] = "pack"
    Arguments: ClassVar[type[BatchArguments]] = PackArguments

    @hookimpl
    def job_order(self, session: Session, job: JobInfo) -> int:
        return 0


class Tree(BatchPlugin):
    name: ClassVar[str] = "tree"


class Tdm(BatchPlugin):
    """A third party's plugin of a name that Volcano has too."""

    name: ClassVar[str] = "tdm"


class Touchy(BatchPlugin):
    name: ClassVar[str] = "touchy"

    def __init__(self, arguments: BatchArguments) -> None:
        raise ValueError("not today")


class Misspelt(BatchPlugin):
    name: ClassVar[str] = "misspelt"

    @hookimpl
    def job_odrer(self, session: Session, job: JobInfo) -> int:
        return 0


def offers(*classes: type[Action] | type[BatchPlugin]) -> list[Offer]:
    return [Offer(each.name, partial(itself, each), "acme 1.0", f"acme:{each.__name__}") for each in classes]


def itself(offered: object) -> object:
    return offered


REGISTRY = BatchRegistry(offers(Push, Wait), offers(Pack, Tree, Touchy, Misspelt))


def compiled(tiers: str = "[]", actions: str = "wait", more: str = "", registry: BatchRegistry = REGISTRY) -> Program:
    return compile_program(parse(f"actions: {actions}\ntiers: {tiers}\n{more}", "f.conf"), registry)


def test_actions_are_created_in_order_with_their_arguments() -> None:
    more = "configurations: [{name: push, arguments: {maxPushes: '3', careful: 'false'}}]"
    program = compiled(actions="push, wait, push", more=more)
    assert [action.name for action in program.actions] == ["push", "wait", "push"]
    assert program.actions[0].arguments == PushArguments(most=3, careful=False)
    assert program.actions[1].arguments == BatchArguments()
    assert program.notices == ()


def test_each_entry_creates_a_plugin() -> None:
    program = compiled(
        "[{plugins: [{name: pack, arguments: {pack.weight: 5}}, {name: tree}]}, {plugins: [{name: pack}]}]"
    )
    assert [plugin.name for plugin in program.tiers.plugins] == ["pack", "tree", "pack"]
    assert [plugin.arguments for plugin in program.tiers.plugins[::2]] == [PackArguments(weight=5), PackArguments()]
    assert [[call.plugin for call in tier] for tier in program.tiers.calls("job_order")] == [
        [program.tiers.plugins[0]],
        [program.tiers.plugins[2]],
    ]


def test_flags_are_passed_to_the_tiers() -> None:
    program = compiled("[{plugins: [{name: pack, enableJobOrder: false}]}]")
    assert program.tiers.flat("job_order") == ()


@pytest.mark.parametrize(("written", "hierarchical"), [("true", True), ("false", False), ("null", False)])
def test_plugin_sees_whether_it_is_hierarchical(written: str, hierarchical: bool) -> None:
    program = compiled(f"[{{plugins: [{{name: tree, enableHierarchy: {written}}}]}}]")
    assert program.tiers.plugins[0].hierarchical is hierarchical


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("{pack.weight: heavy}", 'tiers[0].plugins[0].arguments[pack.weight]: expected a number, got "heavy"'),
        ("{pack.resources: [a]}", 'tiers[0].plugins[0].arguments[pack.resources]: expected a string, got ["a"]'),
    ],
)
def test_invalid_plugin_arguments_have_their_location(arguments: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(f"[{{plugins: [{{name: pack, arguments: {arguments}}}]}}]")
    assert str(caught.value).startswith(f"f.conf:2: {error}")


def test_python_field_name_is_not_an_argument() -> None:
    program = compiled("[{plugins: [{name: pack, arguments: {weight: 5}}]}]")
    arguments = program.tiers.plugins[0].arguments
    assert isinstance(arguments, PackArguments) and arguments.weight == 1.0
    assert len(program.notices) == 1


def test_invalid_action_arguments_have_their_location() -> None:
    more = "configurations:\n- name: push\n  arguments:\n    careful: true\n    maxPushes: 0\n"
    with pytest.raises(ConfigError) as caught:
        compiled(actions="push", more=more)
    assert str(caught.value).startswith("f.conf:7: configurations[0].arguments.maxPushes: Invalid value: 0")


@pytest.mark.parametrize(
    ("arguments", "notices"),
    [
        (
            "{pack.wieght: 5}",
            [
                (
                    'f.conf:2: tiers[0].plugins[0].arguments[pack.wieght]: unknown argument "pack.wieght" is ignored'
                    " (did you mean 'pack.weight'?)"
                ),
            ],
        ),
        ("{pack.resources: a, pack.resources.a: 5}", []),
        ("{pack.resourcesa: 5}", ["f.conf:2: tiers[0].plugins[0].arguments[pack.resourcesa]: unknown argument"]),
    ],
)
def test_unknown_arguments_are_ignored_with_a_notice(arguments: str, notices: list[str]) -> None:
    program = compiled(f"[{{plugins: [{{name: pack, arguments: {arguments}}}]}}]")
    assert len(program.notices) == len(notices)
    assert all(told.startswith(notice) for told, notice in zip(program.notices, notices, strict=True))


@pytest.mark.parametrize(
    ("tiers", "actions", "error"),
    [
        (
            "[]",
            "wait, pussh",
            (
                "f.conf:1: actions: unknown action 'pussh': no installed distribution offers it under"
                " kframework.batch.actions (did you mean 'push'?)"
            ),
        ),
        (
            "[]",
            "gangreclaim",
            (
                "f.conf:1: actions: action gangreclaim is one of Volcano's that kframework-batch does not"
                " have; remove it, or install a distribution that offers it under kframework.batch.actions"
            ),
        ),
        (
            "[{plugins: [{name: pak}]}]",
            "wait",
            (
                "f.conf:2: tiers[0].plugins[0].name: unknown plugin 'pak': no installed distribution offers it under"
                " kframework.batch.plugins (did you mean 'pack'?)"
            ),
        ),
        (
            "[{plugins: [{name: tdm}]}]",
            "wait",
            (
                "f.conf:2: tiers[0].plugins[0].name: plugin tdm is one of Volcano's that kframework-batch does not"
                " have; remove it, or install a distribution that offers it under kframework.batch.plugins"
            ),
        ),
    ],
)
def test_unknown_names_are_rejected(tiers: str, actions: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(tiers, actions)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "name",
    """cdp deviceshare extender nodegroup numa-aware pdb rescheduling resource-strategy-fit
    resourcequota task-topology tdm usage""".split(),
)
def test_plugins_of_volcano_that_are_missing_are_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"plugin {name} is one of Volcano's"):
        compiled(f"[{{plugins: [{{name: {name}}}]}}]", registry=BatchRegistry.with_classes(Wait))


def test_installed_plugin_of_volcano_is_used() -> None:
    registry = BatchRegistry(offers(Wait), offers(Tdm))
    assert isinstance(compiled("[{plugins: [{name: tdm}]}]", registry=registry).tiers.plugins[0], Tdm)


def test_all_errors_are_reported_at_once() -> None:
    tiers = "[{plugins: [{name: pak}, {name: pack, arguments: {pack.weight: x}}, {name: tdm}]}]"
    with pytest.raises(ConfigError) as caught:
        compiled(tiers, "pussh")
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "actions",
        "tiers[0].plugins[0].name",
        "tiers[0].plugins[1].arguments[pack.weight]",
        "tiers[0].plugins[2].name",
    ]


def test_warnings_of_the_file_are_notices() -> None:
    assert compiled(more="metrcs: {}").notices == (
        "f.conf:3: metrcs: unknown field \"metrcs\" is ignored (did you mean 'metrics'?)",
    )


@pytest.mark.parametrize(
    ("flag", "notices"),
    [
        (
            "enabledHyperNodeGradient: true",
            ("enabledHyperNodeGradient: has no effect: other orders of tiers are not supported",),
        ),
        ("enabledSubJobReady: true", ()),
        ("enabledClusterOrder: true", ("enabledClusterOrder: has no effect: several clusters are not supported",)),
        ("enabledHyperNodeGradient: false", ()),
        ("enabledHyperNodeOrder: true", ()),
        ("enableJobOrder: true", ()),
    ],
)
def test_unsupported_flags_are_ignored_with_a_notice(flag: str, notices: tuple[str, ...]) -> None:
    program = compiled(f"[{{plugins: [{{name: pack, {flag}}}]}}]")
    assert program.notices == tuple(f"f.conf:2: tiers[0].plugins[0].{notice}" for notice in notices)


def test_arguments_of_an_unknown_action_are_a_notice() -> None:
    (notice,) = compiled(more="configurations: [{name: pussh, arguments: {a: 1}}]").notices
    assert notice.startswith("f.conf:3: configurations[0].arguments: unknown action 'pussh'")


def test_arguments_of_an_unused_action_are_no_notice() -> None:
    assert compiled(more="configurations: [{name: push, arguments: {maxPushes: 2}}]").notices == ()


def test_plugin_that_cannot_be_created_is_named() -> None:
    with pytest.raises(PluginError) as caught:
        compiled("[{plugins: [{name: touchy}]}]")
    assert str(caught.value) == "plugin 'touchy' (from acme 1.0): cannot be made: ValueError: not today"


def test_plugin_that_breaks_the_contract_is_named() -> None:
    with pytest.raises(PluginError, match=r"plugin 'misspelt' \(from acme 1.0\): unknown hook 'job_odrer'"):
        compiled("[{plugins: [{name: misspelt}]}]")


def test_name_offered_twice_is_rejected() -> None:
    twice = [*offers(Pack), Offer("pack", lambda: Pack, "beta 2.0", "beta:Pack")]
    with pytest.raises(PluginError, match="several distributions offer the name"):
        compiled("[{plugins: [{name: pack}]}]", registry=BatchRegistry(offers(Wait), twice))


def test_default_configuration_uses_offered_classes() -> None:
    default = default_configuration()
    names = [entry.name for tier in default.tiers for entry in tier]
    plugins = [type(name, (BatchPlugin,), {"name": name}) for name in names]
    actions = [type(name, (Action,), {"name": name}) for name in default.actions]
    program = compile_program(default, BatchRegistry(offers(*actions), offers(*plugins)))
    assert [plugin.name for plugin in program.tiers.plugins] == names
    assert program.configuration is default
