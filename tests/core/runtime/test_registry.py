"""What can be named in a configuration, and what is said when it cannot."""

from __future__ import annotations

import pytest

from kframework import Plugin, PluginError
from kframework.core.runtime.registry import Offer, Registry
from tests.extension_points.scripted import plugin

A = plugin("A", filter=None)


def offer(name: str, loaded: object, distribution: str = "acme 1.0", target: str = "acme:A") -> Offer:
    def load() -> object:
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    return Offer(name, load, distribution, target)


class Nameless(Plugin):
    pass


class OddArgs(Plugin):
    name = "OddArgs"
    Args = dict  # type: ignore[assignment]  # the mistake that is made here


@pytest.mark.parametrize(
    ("name", "offers", "message"),
    [
        (
            "NodeAfinity",
            [offer("NodeAffinity", A)],
            "no installed distribution offers it; did you mean 'NodeAffinity'?",
        ),
        ("Xyzzy", [offer("NodeAffinity", A)], "no installed distribution offers it"),
        (
            "A",
            [offer("A", A, "acme 1.0", "acme:A"), offer("A", A, "beta 2.0", "beta:A")],
            "several distributions offer the name: acme 1.0 (acme:A) and beta 2.0 (beta:A); uninstall one",
        ),
        (
            "A",
            [offer("A", ImportError("no module named 'torch'"))],
            "(from acme 1.0): cannot be imported: ImportError: no module named 'torch', at ",
        ),
        ("A", [offer("A", object())], "(from acme 1.0): 'acme:A' is not a subclass of kframework.Plugin"),
        ("A", [offer("A", dict)], "(from acme 1.0): 'acme:A' is not a subclass of kframework.Plugin"),
        ("B", [offer("B", A)], "(from acme 1.0): its entry point is named 'B' but the class has name = 'A'"),
        ("B", [offer("B", Nameless)], "(from acme 1.0): the class has no name: set name = 'Nameless'"),
        ("OddArgs", [offer("OddArgs", OddArgs)], "(from acme 1.0): its Args do not derive from kframework.PluginArgs"),
    ],
)
def test_unusable_plugins_raise_plugin_error(name: str, offers: list[Offer], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        Registry(offers).load(name)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"plugin {name!r}")


def test_plugin_is_imported_once_on_first_use() -> None:
    loads: list[str] = []

    def load() -> object:
        loads.append("A")
        return A

    registry = Registry([Offer("A", load), offer("Broken", ImportError())])
    assert "A" in registry and list(registry) == ["A", "Broken"]
    assert loads == []
    assert registry.load("A") is registry.load("A") is A
    assert loads == ["A"]


def test_load_all_returns_the_errors() -> None:
    asked: list[str] = []

    def broken() -> object:
        asked.append("Broken")
        raise ImportError("no module named acme")

    def whole() -> object:
        asked.append("Whole")
        return plugin("Whole", filter=None)

    (problem,) = Registry([Offer("Whole", whole), Offer("Broken", broken)]).load_all()
    assert problem.plugin == "Broken"
    assert asked == ["Broken", "Whole"]
    assert Registry.from_installed().load_all() == []


def test_duplicate_entry_point_is_one_offer() -> None:
    registry = Registry([offer("A", A), offer("A", A)])
    assert registry.load("A") is A
    assert registry.distribution("A") == "acme 1.0"


def test_built_in_plugins_are_installed() -> None:
    registry = Registry.from_installed()
    assert registry.load("PrioritySort").name == "PrioritySort"
    assert (registry.distribution("PrioritySort") or "").startswith("kframework-sdk ")
    assert registry.distribution("Unheard") is None


def test_passed_classes_replace_installed_ones() -> None:
    mine = plugin("PrioritySort", queue_sort=1)
    registry = Registry.with_plugins(mine, A)
    assert registry.load("PrioritySort") is mine
    assert registry.load("DefaultBinder").name == "DefaultBinder"
    assert registry.distribution("A") is None
