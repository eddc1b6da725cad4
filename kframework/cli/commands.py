"""The commands of `kframework`, loaded when called: built-in ones, and those of other distributions.

An entry point of the group `kframework.commands` names a `typer.Typer`, or a function; its own name is the command's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

import typer
from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_group

from kframework.errors import KFrameworkError, format_import_error
from kframework.verbosity import notify_user

#: The entry-point group in which distributions offer commands.
GROUP = "kframework.commands"


class LazyCommand(TyperCommand):
    """A placeholder of a command until it is called, or its help is requested.

    Loading all of them takes as long as loading what `run` needs of HTTP. With a summary, listing loads nothing.
    """

    def __init__(self, name: str, load: Callable[[], TyperCommand | TyperGroup], summary: str | None = None) -> None:
        super().__init__(name, short_help=summary)
        self._load = cache(load)

    def make_context(  # type: ignore[override]  # typer hides its base
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: object
    ) -> Context:
        return self._load().make_context(info_name, args, parent, **extra)  # type: ignore[return-value]  # typer hides its base

    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(limit) if self.short_help else self._load().get_short_help_str(limit)


def built_in(name: str, target: str, cls: type[TyperCommand] = TyperCommand) -> LazyCommand:
    """Return one of our commands; `target` is written as in an entry point."""
    return LazyCommand(name, lambda: _build(name, EntryPoint(name, target, GROUP).load(), cls))


class OpenGroup(TyperGroup):
    """A group of our own commands, followed by those that installed distributions offer."""

    own: ClassVar[Sequence[LazyCommand]] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._own = {str(each.name): each for each in self.own}
        self.commands.update(self._own)

    def get_command(self, ctx: Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]  # typer hides its base
        if cmd_name not in self.commands:
            self._add_offered()
        return super().get_command(ctx, cmd_name)  # type: ignore[return-value]  # typer hides its base

    def list_commands(self, ctx: Context) -> list[str]:  # type: ignore[override]  # typer hides its base
        """Return the names of all commands, built-in ones first; warn about offered ones that are ignored."""
        self._add_offered()
        for name, offers in _find_offers().items():
            if name in self._own:
                offering = " and ".join(map(_distribution, offers))
                notify_user("warning", f"{offering}: ignoring its command {name!r}, as kframework has one of this name")
        return super().list_commands(ctx)

    def _add_offered(self) -> None:
        for name, offers in _find_offers().items():
            summary = f"Commands of {_distribution(offers[0])}."
            if offers[0].dist is not None and "Summary" in offers[0].dist.metadata:
                summary = offers[0].dist.metadata["Summary"]
            self.commands.setdefault(name, LazyCommand(name, partial(_load, offers), summary))


def _find_offers() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the offers of each command, by name; a distribution found twice counts once."""
    offers: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for entry_point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        offers.setdefault(entry_point.name, {})[_distribution(entry_point), entry_point.value] = entry_point
    return {name: tuple(same.values()) for name, same in offers.items()}


def _load(offers: Sequence[EntryPoint]) -> TyperCommand | TyperGroup:
    """Load a command; KFrameworkError if that is not possible, or if several distributions offer it."""
    offer, name = offers[0], offers[0].name
    if len(offers) > 1:
        claims = " and ".join(sorted(f"{_distribution(each)} ({each.value})" for each in offers))
        raise KFrameworkError(f"command {name!r}: two distributions offer it: {claims}; uninstall one")
    where = f"command {name!r} (from {_distribution(offer)})"
    try:
        loaded = offer.load()
    except Exception as error:
        raise KFrameworkError(f"{where}: cannot be loaded: {format_import_error(error)}") from error
    if not isinstance(loaded, typer.Typer) and not callable(loaded):
        raise KFrameworkError(f"{where}: {offer.value} is neither a typer.Typer nor a function")
    return _build(name, loaded)


def _build(
    name: str, loaded: typer.Typer | Callable[..., object], cls: type[TyperCommand] = TyperCommand
) -> TyperCommand | TyperGroup:
    holder = typer.Typer(rich_markup_mode=None)
    holder.callback()(lambda: None)  # a group, whose command keeps its name
    if isinstance(loaded, typer.Typer):
        holder.add_typer(loaded, name=name)
    else:
        holder.command(name, cls=cls)(loaded)
    command = get_group(holder).commands[name]
    for each in (command, *getattr(command, "commands", {}).values()):
        for parameter in each.params:
            if isinstance(parameter, TyperArgument):  # its help would show the Python type
                parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
    return command  # type: ignore[return-value]  # typer hides its base


def _distribution(offer: EntryPoint) -> str:
    return f"{offer.dist.name} {offer.dist.version}" if offer.dist is not None else "an unknown distribution"
