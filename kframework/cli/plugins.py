"""`kframework plugins`: list the available plugins, their distributions, and their extension points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import Output, OutputOption, Verbosity, group
from kframework.cli.printing import print_answer, print_names, print_table
from kframework.observe.text_table import NONE
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.cli.answers import PluginItem
    from kframework.core.runtime.registry import Registry

app: typer.Typer = group("List the plugins that a configuration can name.")

_WIDE_HEADERS = ("NAME", "STATUS", "DISTRIBUTION", "TARGET", "READS", "POINTS")

#: The package of built-in plugins.
_BUILT_IN = "kframework.plugins."


@app.command("list")
def list_(plugin: PluginOption, output: OutputOption = None, verbosity: Verbosity = 0) -> None:
    """List kube-scheduler's plugins and all installed ones."""
    from kframework.core.runtime.registry import Registry

    rows = list(_rows(Registry.with_plugins(*named_plugins(plugin))))
    match output:
        case Output.JSON | Output.YAML:
            from kframework.cli.answers import PluginList

            print_answer(output, PluginList(items=tuple(rows)))
        case Output.NAME:
            print_names("plugin", dict.fromkeys(row.name for row in rows))
        case Output.WIDE:
            print_table(_WIDE_HEADERS, [_wide_cells(row) for row in rows])
        case None:
            print_table(("NAME", "SOURCE", "READS", "POINTS"), [_cells(row) for row in rows])
    for message in dict.fromkeys(row.message for row in rows if row.message):
        notify_user("warning", message)


def _rows(registry: Registry) -> Iterator[PluginItem]:
    """Describe every plugin; a failed import affects only its own row."""
    from kframework.cli.answers import PluginItem
    from kframework.core.runtime.hooks import extension_points
    from kframework.errors import PluginError

    for name in sorted(registry):
        offers = registry.offers(name)
        for offer in offers:
            distribution, target = offer.distribution or None, offer.target or None
            try:
                plugin = registry.load(name)
            except PluginError as error:
                status = "conflict" if len(offers) > 1 else "broken"
                yield PluginItem(name, status, [], distribution=distribution, target=target, message=str(error))
                continue
            status = "built-in" if offer.target.startswith(_BUILT_IN) else "installed"
            points, signs = _sort_points(extension_points(plugin)), hasattr(plugin, "sign")
            yield PluginItem(name, status, points, plugin.reads, signs, distribution, target)


def _sort_points(points: frozenset[str]) -> list[str]:
    from kframework.core.runtime.hooks import POINTS

    return sorted(points, key=[*POINTS, *points].index)


def _cells(row: PluginItem) -> tuple[str, ...]:
    """Return one source: the distribution of an external plugin, with its problem if any; otherwise the status."""
    source = row.status if row.status in ("built-in", "not implemented") else row.distribution or row.target or NONE
    wrong = f" ({row.status})" if row.message else ""
    # Without `sign` only pods with the same fields share answers, which costs calls.
    reads = NONE if row.reads is None else row.reads if row.signs else f"{row.reads}, unsigned"
    return row.name, source + wrong, reads, ", ".join(row.points) or NONE


def _wide_cells(row: PluginItem) -> tuple[str, ...]:
    name, _, reads, points = _cells(row)
    return name, row.status, row.distribution or NONE, row.target or NONE, reads, points
