"""What a plugin class has of hooks; and what is refused, as it would not be called as its author thinks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, ClassVar, cast

import pytest

from kframework import Plugin, PluginError, hookimpl, hookwrapper
from kframework.core.runtime.hooks import check_plugin_class, extension_points, hooks_storing_before, marked_hooks
from tests.extension_points.scripted import plugin


def own(name: str, method: object) -> type[Plugin]:
    """Make a plugin A with a good filter, and this beside it."""
    made = plugin("A", filter=None)
    setattr(made, name, method)
    return made


def taking(*arguments: str) -> Callable[..., None]:
    """Make a method of these arguments."""

    def method(self: Plugin, *given: object) -> None: ...

    named = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *arguments)]
    method.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # what is read of it
    return method


NODE = ("state", "pod", "node")


class OnlyHelpers(Plugin):
    """Marks nothing."""

    name = "A"

    def weigh(self, pod: object) -> int:
        return 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (OnlyHelpers, "extends no extension point: no method is marked @hookimpl"),
        (plugin("A", sign=None), "extends no extension point: none exists for events_to_register, sign"),
        (
            own("score", taking(*NODE)),
            "method score(state, pod, node) has the name of a hook but is not marked @hookimpl: mark it, or rename it",
        ),
        (own("score", lambda self: None), "method score() has the name of a hook but is not marked @hookimpl"),
        (own("sign", staticmethod(lambda pod: None)), "method sign(pod) has the name of a hook but is not marked"),
        (
            own("filtr", hookimpl(taking(*NODE))),
            "method filtr is marked @hookimpl, but no hook has this name (did you mean 'filter'?)",
        ),
        (
            own("veto", hookimpl(taking(*NODE))),
            "method veto is marked @hookimpl, but no hook has this name",
        ),
        (own("weigh", hookimpl(taking("pod"))), "method weigh is marked @hookimpl, but no hook has this name"),
        (
            own("filtr", taking(*NODE)),
            "method filtr(state, pod, node) looks like a hook but is not one (did you mean 'filter'?); rename",
        ),
        (own("fliter", taking("s", "p", "n")), "(did you mean 'filter'?)"),
        (own("scores", taking("s", "p", "n")), "(did you mean 'score'?)"),
        (own("preEnqueue", taking("pod")), "(did you mean 'pre_enqueue'?)"),
        (own("sing", taking("pod")), "(did you mean 'sign'?)"),
        (
            own("rank", taking(*NODE)),
            "method rank(state, pod, node) looks like a hook but is not one (did you mean ",
        ),
        (
            own("before_bind", lambda self, state, pod, node_name: None),
            "method before_bind(state, pod, node_name) looks like a hook but is not one (did you mean 'pre_bind'?)",
        ),
    ],
)
def test_method_that_looks_like_a_hook_is_rejected(wrong: type[Plugin], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        check_plugin_class(wrong, "acme 1.0")
    assert str(caught.value).startswith("plugin 'A' (from acme 1.0): ")
    assert message in str(caught.value)


class Library:
    """What comes from elsewhere, and knows nothing of hooks."""

    def bind(self, address: str) -> None: ...
    def filtr(self, state: object, pod: object, node: object) -> None: ...


class Mixin:
    """Meant as a part of a plugin."""

    def score(self, state: object, pod: object, node: object) -> int:
        return 0


class Filtering(Plugin):
    """A plugin that others derive from."""

    name = "A"

    @hookimpl
    def filter(self, state: object, pod: object, node: object) -> None: ...


class Overriding(Filtering):
    """Loses the hook."""

    def filter(self, state: object, pod: object, node: object) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (type("A", (Mixin, Filtering), {}), "method score(state, pod, node) has the name of a hook but is not marked"),
        (Overriding, "method filter(state, pod, node) has the name of a hook but is not marked"),
        (type("A", (Filtering,), {"reads": "nodes"}), "reads = 'nodes' is not one of 'node', 'pods', 'domains', None"),
        (type("A", (Filtering,), {"reads": "domains"}), 'reads = "domains" needs filter_domains'),
        (
            type("A", (Filtering,), {"sign_reads": "node"}),
            "sign_reads = 'node' is not a tuple of kinds; use () for none, (Service,) for one",
        ),
    ],
)
def test_hooks_lost_between_base_classes_are_rejected(wrong: type[Plugin], message: str) -> None:
    with pytest.raises(PluginError, match="plugin 'A': ") as caught:
        check_plugin_class(wrong)
    assert message in str(caught.value)


class Whole(Library, Filtering):  # type: ignore[misc]  # its `bind` is no hook, and to mypy every plugin has one
    """Has all sorts of methods that are its own affair."""

    limit: ClassVar[Callable[..., int]] = max
    score: ClassVar[None] = None  # type: ignore[assignment]  # takes a hook away

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.table: dict[str, int] = {}

    async def start(self) -> None: ...
    async def close(self) -> None: ...

    @property
    def permit(self) -> bool:  # type: ignore[override]  # no hook, though it is called as one
        return True

    @classmethod
    def of(cls, pod: object) -> None: ...

    def room(self, pod: object, node: object) -> int:
        return 0

    def assign(self, pod: object) -> None: ...
    def design(self, pod: object, bits: int) -> None: ...
    def words(self, pod: object, bits: int) -> None: ...
    def scores(self) -> None: ...
    def filtered(self, state: object, pod: object, nodes: object, beside: object) -> None: ...
    def _rank(self, state: object, pod: object, node: object) -> None: ...


def test_other_methods_of_a_plugin_are_accepted() -> None:
    check_plugin_class(Whole)


def test_plugin_class_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = plugin("A", filter=None)
    check_plugin_class(sound)
    monkeypatch.setattr(sound, "filtr", taking(*NODE), raising=False)
    check_plugin_class(sound)


@pytest.mark.parametrize(
    ("hook", "hooks"),
    [
        ("filter", ["pre_filter"]),
        ("pre_score", ["pre_filter"]),
        ("normalize_score", ["pre_filter", "pre_score"]),
        ("unreserve", ["pre_filter", "pre_score", "reserve"]),
        ("post_bind", ["pre_filter", "pre_score", "reserve", "pre_bind"]),
    ],
)
def test_hooks_that_run_before_another_may_store_its_state(hook: str, hooks: list[str]) -> None:
    storing = plugin("A", pre_bind=None, reserve=None, pre_score=None, pre_filter=None, filter=None)
    assert hooks_storing_before(hook, storing) == hooks


def named(hook: str, method: Any, **options: object) -> type[Plugin]:
    """Make a plugin A whose hook is just this function."""
    made = plugin("A")
    setattr(made, hook, cast("Any", hookimpl)(**options)(method))
    return made


async def permit(self: Plugin, state: object, pod: object, node_name: object) -> None: ...


def around(self: Plugin, state: object, pod: object, node: object) -> Generator[None, object, object]:
    return (yield)


def around_bind(self: Plugin, state: object, pod: object, node_name: object) -> Generator[None, object, object]:
    return (yield)


def around_permit(self: Plugin, state: object, pod: object, node_name: object) -> Generator[None, object, object]:
    return (yield)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            named("filter", lambda self, state, pod, node: None, tryfirst=True),
            "hook filter: tryfirst and trylast are not supported: the configuration defines the order",
        ),
        (
            named("filter", lambda self, state, pod, node: None, trylast=True),
            "hook filter: tryfirst and trylast are not supported: the configuration defines the order",
        ),
        (named("filter", around, wrapper=True), "hook filter: this point cannot be wrapped"),
        (named("bind", around_bind, wrapper=True), "hook bind: this point cannot be wrapped"),
        (
            named("permit", around_permit, hookwrapper=True),
            "hook permit: old-style wrappers are not supported: use @hookwrapper",
        ),
        (
            named("filter", lambda self, pod, state, node: None),
            "hook filter: takes (pod, state, node) where the contract says (state, pod, node)",
        ),
        (
            named("filter", lambda self, state, pod: None),
            "hook filter: takes (state, pod) where the contract says (state, pod, node)",
        ),
        (named("filter", lambda self, state, pod, info: None), "info"),
        (named("filter", lambda self, *args: None), "hook filter: takes (args) where the contract says"),
        (named("permit", permit), "hook permit: must be a plain function: the scheduling cycle does not await it"),
        (plugin("A", filter_nodes=0), "hook filter_nodes: needs filter_status, which converts its bits to a Status"),
        (plugin("A", filter=None, filter_more=0), "hook filter_more: needs filter_nodes or filter_domains"),
        (plugin("A", filter_domains=0, filter_status=0), 'hook filter_domains: needs reads = "domains"'),
        (
            named("permit", taking("state", "pod", "node_name"), wrapper=True),
            "hook permit: is marked as a wrapper but does not yield",
        ),
        (
            named("permit", taking("state", "pod", "node_name"), specname="reserve"),
            "hook permit: specname is not supported: the method must have the hook's name",
        ),
    ],
)
def test_invalid_hooks_are_rejected(wrong: type[Plugin], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        check_plugin_class(wrong, "acme 1.0")
    assert str(caught.value).startswith("plugin 'A' (from acme 1.0)")
    assert message in str(caught.value)


@pytest.mark.parametrize("hook", ["pre_bind", "bind", "post_bind"])
def test_binding_hooks_may_be_coroutines(hook: str) -> None:
    check_plugin_class(named(hook, permit))


class Wrapping(Plugin):
    name = "Wrapping"

    @hookwrapper
    def permit(self, state: object, pod: object, node_name: object) -> Generator[None, object, object]:
        return (yield)


@pytest.mark.parametrize(
    ("extending", "points"),
    [
        (plugin("P"), set()),
        (plugin("P", filter=None), {"filter"}),
        (plugin("P", filter_nodes=None, filter_status=None), {"filter"}),
        (plugin("P", score_nodes=None, normalize_score=None), {"score"}),
        (plugin("P", unreserve=None), {"reserve"}),
        (plugin("P", pre_bind=None, pre_bind_pre_flight=None, bind=None), {"pre_bind", "bind"}),
        (plugin("P", sign=None, add_pod=None), set()),
        (Wrapping, {"permit"}),
    ],
)
def test_extension_points_follow_from_the_hooks(extending: type[Plugin], points: set[str]) -> None:
    assert extension_points(extending) == points


def test_unmarked_methods_are_not_hooks() -> None:
    class Half(Plugin):
        name = "Half"

        def filter(self, state: object, pod: object, node: object) -> None:
            """Not marked."""

    assert marked_hooks(Half) == {}
    assert marked_hooks(Wrapping)["permit"]["wrapper"] is True
