"""The hooks of a plugin class: their extension points, and checks for mistakes such as misspelt hooks."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import cast
from weakref import WeakKeyDictionary, WeakSet

from kframework.errors import PluginError, nearest_name
from kframework.framework.hookspecs import SPECIFICATIONS
from kframework.framework.plugin import Plugin

#: Extension points by their hooks: a plugin extends a point when it implements one of them.
POINTS: Mapping[str, tuple[str, ...]] = {
    "pre_enqueue": ("pre_enqueue",),
    "queue_sort": ("queue_sort",),
    "pre_filter": ("pre_filter",),
    "filter": ("filter", "filter_nodes", "filter_domains"),
    "post_filter": ("post_filter",),
    "pre_score": ("pre_score",),
    "score": ("score", "score_nodes"),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "pre_bind": ("pre_bind",),
    "bind": ("bind",),
    "post_bind": ("post_bind",),
    "placement_generate": ("placement_generate",),
    "placement_score": ("placement_score",),
    "pod_group_post_filter": ("pod_group_post_filter",),
}

#: Points that run once per cycle, synchronously, and so may be wrapped.
WRAPPABLE = frozenset({"pre_enqueue", "pre_filter", "post_filter", "pre_score", "reserve", "unreserve", "permit"})

#: Hooks that run once per pod, and so may store what later ones read.
_STORING = ("pre_filter", "pre_score", "reserve", "permit", "pre_bind")

_AWAITED = ("pre_bind", "bind", "post_bind")

#: The allowed values of a plugin's `reads`.
_READS = ("node", "pods", "domains", None)


def marked_hooks(plugin: type[Plugin]) -> dict[str, Mapping[str, object]]:
    """Return the methods marked `@hookimpl`, with the options given to the marker."""
    marked = {name: hook_options(plugin, name) for name in dir(plugin)}
    return {name: options for name, options in marked.items() if options is not None}


def hook_options(plugin: type[Plugin], hook: str) -> Mapping[str, object] | None:
    """Return the options given to `@hookimpl` for a method; None if it is not marked, or not there."""
    options: Mapping[str, object] | None = getattr(getattr(plugin, hook, None), "kframework_impl", None)
    return options


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """Return the extension points that a plugin extends or wraps; computed once per class."""
    points = _EXTENSION_POINTS.get(plugin)
    if points is None:
        points = frozenset(point for point, hooks in POINTS.items() if has_hook(plugin, hooks))
        _EXTENSION_POINTS[plugin] = points
    return points


_EXTENSION_POINTS: WeakKeyDictionary[type[Plugin], frozenset[str]] = WeakKeyDictionary()


def has_hook(plugin: type[Plugin], hooks: Iterable[str]) -> bool:
    return any(hook_options(plugin, hook) is not None for hook in hooks)


def hooks_storing_before(hook: str, plugin: type[Plugin]) -> list[str]:
    """List the plugin's hooks that may store what this hook reads: those that run before it, once per pod."""
    order = list(_ARGUMENTS)
    return [each for each in _STORING if hook_options(plugin, each) is not None and each in order[: order.index(hook)]]


def check_plugin_class(plugin: type[Plugin], distribution: str | None = None) -> None:
    """Reject a class with a method that would not be called as its author expects; checked once per class.

    Raises PluginError, which names the method and the hook that was probably meant.
    """
    if plugin in _CHECKED:
        return
    for hook, problem in _find_problems(plugin):
        location = source_location(plugin, hook or "", problem)
        problem += f" ({location})" if location else ""
        raise PluginError(problem, plugin=plugin.name, hook=hook, distribution=distribution)
    _CHECKED.add(plugin)


#: The plugin classes that passed the check.
_CHECKED: WeakSet[type[Plugin]] = WeakSet()


def _find_problems(plugin: type[Plugin]) -> Iterator[tuple[str | None, str]]:
    """Yield the problems of a class, each with the hook it concerns, if any."""
    marked = marked_hooks(plugin)
    for name, options in marked.items():
        if name not in _ARGUMENTS:
            similar = nearest_name(name, _ARGUMENTS) or _hook_with_arguments(
                name, _argument_names(getattr(plugin, name))
            )
            hint = f" (did you mean {similar!r}?)" if similar else ""
            yield None, f"method {name} is marked @hookimpl, but no hook has this name{hint}"
        else:
            for problem in _hook_problems(plugin, name, options):
                yield name, problem
    for name in sorted(set(dir(plugin)) - set(dir(Plugin)) - set(marked)):
        problem = _method_problem(plugin, name)
        if problem:
            yield None, problem
    if not extension_points(plugin):
        reason = f"none exists for {', '.join(sorted(marked))}" if marked else "no method is marked @hookimpl"
        yield None, f"extends no extension point: {reason}"
    if plugin.reads not in _READS:
        yield None, f"reads = {plugin.reads!r} is not one of {', '.join(map(repr, _READS))}"
    if plugin.reads == "domains" and has_hook(plugin, POINTS["filter"]) and not has_hook(plugin, ["filter_domains"]):
        yield None, 'reads = "domains" needs filter_domains, which says what the plugin rejects'
    kinds = plugin.sign_reads
    if kinds is not None and not (isinstance(kinds, tuple) and all(isinstance(kind, type) for kind in kinds)):
        yield None, f"sign_reads = {kinds!r} is not a tuple of kinds; use () for none, (Service,) for one"


# -- marked methods ----------------------------------------------------------------------------------------------------


def _hook_problems(plugin: type[Plugin], hook: str, options: Mapping[str, object]) -> Iterator[str]:
    function = getattr(plugin, hook)
    if options.get("tryfirst") or options.get("trylast"):
        yield "tryfirst and trylast are not supported: the configuration defines the order"
    if options.get("specname"):
        yield "specname is not supported: the method must have the hook's name"
    if options.get("hookwrapper"):
        yield "old-style wrappers are not supported: use @hookwrapper"
    if options.get("wrapper") and hook not in WRAPPABLE:
        yield "this point cannot be wrapped"
    if options.get("wrapper") and not inspect.isgeneratorfunction(function):
        yield "is marked as a wrapper but does not yield"
    expected, actual = _ARGUMENTS[hook], _argument_names(function)
    if expected != actual:
        yield f"takes ({', '.join(actual)}) where the contract says ({', '.join(expected)})"
    if inspect.iscoroutinefunction(function) and hook not in _AWAITED:
        yield "must be a plain function: the scheduling cycle does not await it"
    if hook in ("filter_nodes", "filter_domains") and "filter_status" not in marked_hooks(plugin):
        yield "needs filter_status, which converts its bits to a Status"
    if hook == "filter_more" and not has_hook(plugin, ("filter_nodes", "filter_domains")):
        yield "needs filter_nodes or filter_domains, which it extends"
    if hook == "filter_domains" and plugin.reads != "domains":
        yield 'needs reads = "domains"'


def _argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    try:
        return tuple(name for name in inspect.signature(function).parameters if name != "self")
    except (TypeError, ValueError):  # C functions may have no signature
        return ()


#: The arguments of every hook.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    name: _argument_names(cast("Callable[..., object]", member))
    for protocol in SPECIFICATIONS
    for name, member in vars(protocol).items()
    if hasattr(member, "kframework_spec")
}


# -- other methods -----------------------------------------------------------------------------------------------------


def _method_problem(plugin: type[Plugin], name: str) -> str:
    """Return which hook a public method was probably meant to be; "" if it looks like a method of the plugin's own.

    A method of a base that is no Plugin is ignored, unless it has a hook's name and its arguments too.
    """
    method = getattr(plugin, name, None)
    if name.startswith("_") or not inspect.isroutine(method):
        return ""
    arguments = _argument_names(method)
    owner = next(each for each in plugin.__mro__ if name in vars(each))
    if not issubclass(owner, Plugin) and _ARGUMENTS.get(name) != arguments:
        return ""
    method_text = f"method {name}({', '.join(arguments)})"
    remedy = f"rename it to _{name} if it is not a hook"
    if name in _ARGUMENTS:
        return f"{method_text} has the name of a hook but is not marked @hookimpl: mark it, or {remedy}"
    similar = (
        hook for hook, expected in _ARGUMENTS.items() if len(expected) == len(arguments) and _is_one_edit(name, hook)
    )
    hook = _hook_with_arguments(name, arguments) or next(similar, None)
    if hook is None:
        return ""
    return f"{method_text} looks like a hook but is not one (did you mean {hook!r}?); {remedy}"


def _hook_with_arguments(name: str, arguments: tuple[str, ...]) -> str | None:
    """Return the hook that takes these arguments, the one of the nearest name.

    Only hooks that take a `state` are distinctive enough: any method may take a `pod`.
    """
    hooks = [hook for hook, expected in _ARGUMENTS.items() if expected == arguments and "state" in expected]
    return max(hooks, key=lambda hook: SequenceMatcher(None, name, hook).ratio(), default=None)


def _is_one_edit(one: str, other: str) -> bool:
    """Return whether names differ in capitals, underscores and one letter that is missing, more, wrong or swapped."""
    short, long = sorted((each.replace("_", "").lower() for each in (one, other)), key=len)
    start = next((at for at, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short))
    short, long = short[start:], long[start:]
    swapped = long[:2] == short[1::-1] and short[2:] == long[2:]
    return swapped or long[1:] in (short, short[1:])


def source_location(plugin: type[Plugin], hook: str, error: BaseException | str) -> str:
    """Return file and line of the error within the plugin's own module, else of the hook.

    If the class has no such hook, it is the line of the class; "" without a source file.
    """
    try:
        file = inspect.getsourcefile(plugin)
    except (TypeError, OSError):  # a module without a file, typed in at a prompt
        return ""
    if isinstance(error, BaseException):
        frames = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == file]
        if lines:
            return f"{file}:{lines[-1]}"
    method = getattr(plugin, hook, None)
    if inspect.isfunction(method):
        code = inspect.unwrap(method).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        return f"{file}:{inspect.getsourcelines(plugin)[1]}"
    except OSError:
        return ""
