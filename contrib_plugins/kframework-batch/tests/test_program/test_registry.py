"""Which actions and plugins can be named, and what is said of those that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest
from kframework_batch.action import Action
from kframework_batch.plugin import BatchArguments, BatchPlugin
from kframework_batch.program import ACTIONS, PLUGINS, BatchRegistry
from kframework_batch.session import Session

from kframework.core.runtime.registry import Offer, installed_offers
from kframework.errors import PluginError


class Rest(Action):
    name: ClassVar[str] = "rest"

    def run(self, session: Session) -> Iterator[None]:
        yield


class Gang(BatchPlugin):
    name: ClassVar[str] = "gang"


class Nameless(BatchPlugin):
    pass


class OddArguments(BatchPlugin):
    name: ClassVar[str] = "odd"
    Arguments = dict  # type: ignore[assignment]  # the mistake that is made here


def offer(name: str, loaded: object, distribution: str = "acme 1.0", target: str = "acme:A") -> Offer:
    def load() -> object:
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    return Offer(name, load, distribution, target)


def test_offers_of_this_distribution_are_installed() -> None:
    registry = BatchRegistry.with_classes()
    assert {"enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle"} <= {*registry.actions}
    assert {"gang", "drf", "proportion", "predicates", "nodeorder"} <= {*registry.plugins}
    assert (registry.plugins.distribution("gang") or "").startswith("kframework-batch ")


def test_entry_points_are_imported_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(group: str) -> list[EntryPoint]:
        return [EntryPoint("rest", "acme.nowhere:Rest", group)] if group == ACTIONS else []

    monkeypatch.setattr("kframework.core.runtime.registry.entry_points", entry_points)
    installed_offers.cache_clear()
    try:
        registry = BatchRegistry.with_classes()
        assert list(registry.actions) == ["rest"]
        assert list(registry.plugins) == []
        with pytest.raises(PluginError, match="cannot be imported: ModuleNotFoundError: No module named 'acme'"):
            registry.actions.load("rest")
    finally:
        installed_offers.cache_clear()


def test_given_classes_are_added_to_the_installed_ones_and_replace_them() -> None:
    registry = BatchRegistry.with_classes(Rest, Gang)
    assert registry.actions.load("rest") is Rest
    assert registry.plugins.load("gang") is Gang
    assert registry.plugins.distribution("gang") is None
    assert "allocate" in registry.actions
    assert "rest" not in registry.plugins
    assert list(registry.plugins).count("gang") == 1


def test_class_is_loaded_once() -> None:
    loads: list[str] = []

    def load() -> object:
        loads.append("gang")
        return Gang

    plugins = BatchRegistry([], [Offer("gang", load)]).plugins
    assert plugins.load("gang") is plugins.load("gang")
    assert loads == ["gang"]


def test_duplicate_offers_are_merged() -> None:
    twice = [offer("gang", Gang), offer("gang", Gang)]
    assert BatchRegistry([], twice).plugins.load("gang") is Gang


def test_unknown_name_is_a_key_error() -> None:
    plugins = BatchRegistry([], []).plugins
    assert "gang" not in plugins
    assert plugins.distribution("gang") is None
    with pytest.raises(PluginError, match="no installed distribution offers it"):
        plugins.load("gang")


@pytest.mark.parametrize(
    ("name", "offers", "message"),
    [
        (
            "gang",
            [offer("gang", Gang, "beta 2.0", "beta:B"), offer("gang", Gang)],
            "several distributions offer the name: acme 1.0 (acme:A) and beta 2.0 (beta:B); uninstall one",
        ),
        (
            "gang",
            [offer("gang", ImportError("no torch"))],
            "test_registry.py:42",
        ),
        ("gang", [offer("gang", object())], "'acme:A' is no class derived from kframework_batch's BatchPlugin"),
        ("gang", [offer("gang", Rest)], "'acme:A' is no class derived from kframework_batch's BatchPlugin"),
        ("pair", [offer("pair", Gang)], "its entry point is named 'pair' but the class has name = 'gang'"),
        ("pair", [offer("pair", Nameless)], "its entry point is named 'pair' but the class has name = ''"),
        ("odd", [offer("odd", OddArguments)], "its Arguments do not derive from kframework_batch's BatchArguments"),
    ],
)
def test_offer_that_cannot_be_loaded_is_named(name: str, offers: list[Offer], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        BatchRegistry([], offers).plugins.load(name)
    assert str(caught.value).startswith(f"plugin {name!r}")
    assert str(caught.value).endswith(message)


def test_plugin_offered_as_action_is_rejected() -> None:
    with pytest.raises(PluginError, match="is no class derived from kframework_batch's Action"):
        BatchRegistry([offer("gang", Gang)], []).actions.load("gang")


def test_entry_point_groups_are_documented() -> None:
    assert (ACTIONS, PLUGINS) == ("kframework.batch.actions", "kframework.batch.plugins")


def test_action_base_class_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        Action(BatchArguments()).run(None)  # type: ignore[arg-type]  # no session is looked at
