"""`--plugin FILE.py:CLASS`: plugin classes that are in no distribution; and `--engine NAME`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.errors import PluginError, format_import_error, nearest_name

if TYPE_CHECKING:
    from kframework.core.engine import Engine
    from kframework.framework.plugin import Plugin
    from kframework.observe.recording.engines import EngineKind

PluginOption = Annotated[
    list[str],
    typer.Option(
        "--plugin",
        metavar="FILE.py:CLASS",
        default_factory=list,
        show_default=False,
        help="Plugin class without a package, or MODULE:CLASS. Without --config it runs at all its points, with it the"
        " configuration must enable it. Repeatable.",
    ),
]


def named_plugins(references: Sequence[str]) -> list[type[Plugin]]:
    """Import the classes that `--plugin` names; PluginError for one that cannot be loaded."""
    plugins: dict[str, type[Plugin]] = {}
    for each in references:
        plugin = _load_plugin(each)
        if plugin.name in plugins:
            raise typer.BadParameter(f"{each}: plugin {plugin.name!r} is given twice", param_hint="'--plugin'")
        plugins[plugin.name] = plugin
    return list(plugins.values())


def named_engine(name: str) -> EngineKind[Engine]:
    """Return the kind of engine that `--engine` names."""
    from kframework.observe.recording.engines import GROUP, kind_named

    kind = kind_named(name)
    if kind is None:
        raise typer.BadParameter(f"no installed distribution offers {name!r} under {GROUP}", param_hint="'--engine'")
    return kind


def _load_plugin(reference: str) -> type[Plugin]:
    from kframework.core.runtime.registry import Offer, Registry

    where, _, name = reference.rpartition(":")
    if not where or not name:
        raise typer.BadParameter(f"write FILE.py:CLASS or MODULE:CLASS, not {reference!r}", param_hint="'--plugin'")
    if where.endswith(".py") and not Path(where).is_file():
        raise PluginError("there is no such file", plugin=reference)
    try:
        if where.endswith(".py"):
            module = _import_file(Path(where).resolve())
        else:
            search_module(Path.cwd())  # as `python -m` does
            module = import_module(where)
    except Exception as error:
        raise PluginError(f"cannot be imported: {format_import_error(error)}", plugin=reference) from error
    if not hasattr(module, name):
        close = nearest_name(name, [key for key, each in vars(module).items() if isinstance(each, type)])
        hint = f" (did you mean {close!r}?)" if close else ""
        raise PluginError(f"there is no {name} in {where}{hint}", plugin=reference)
    loaded: object = getattr(module, name)
    offer = Offer(getattr(loaded, "name", "") or reference, lambda: loaded, target=reference)
    return Registry([offer]).load(offer.name)


def _import_file(file: Path) -> ModuleType:
    """Import a file once, as a module of its name, with neighbouring files importable as in `python FILE`."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(file):
            return module
    search_module(file.parent)
    name = re.sub(r"\W", "_", file.stem)
    while name in sys.modules:  # plugin.py of another folder, or types.py
        name += "_"
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # its name ends with .py
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def search_module(folder: Path) -> None:
    """Make the modules of a folder importable."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
