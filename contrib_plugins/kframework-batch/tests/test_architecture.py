"""No circle of modules exists, imports for annotations included; and every module stays short."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import kframework_batch

PACKAGE = "kframework_batch"
FOLDER = Path(kframework_batch.__file__).parent


def test_modules_have_no_import_cycle() -> None:
    assert circle_in({name: path.read_text() for name, path in modules().items()}) is None


def test_planted_import_cycle_is_found() -> None:
    sources = {
        f"{PACKAGE}.job": "",
        f"{PACKAGE}.action": f"from {PACKAGE}.job import JobInfo\nfrom {PACKAGE} import session",
        f"{PACKAGE}.session": f"if TYPE_CHECKING:\n    from {PACKAGE}.action import Action",
    }
    circle = circle_in(sources)
    assert circle is not None
    assert set(circle) == {f"{PACKAGE}.action", f"{PACKAGE}.session"}
    del sources[f"{PACKAGE}.action"]
    assert circle_in(sources) is None


def test_modules_are_short() -> None:
    assert max(len(path.read_text().splitlines()) for path in modules().values()) <= 500


def modules() -> dict[str, Path]:
    """Map the dotted name of each module to its file."""
    paths = (path for path in FOLDER.rglob("*.py") if path.name != "__init__.py")
    return {".".join((PACKAGE, *path.relative_to(FOLDER).with_suffix("").parts)): path for path in paths}


def circle_in(sources: Mapping[str, str]) -> list[str] | None:
    """Return the modules of a circle of imports, the first one again at the end; None where there is none."""
    graph = {name: imported(source) & sources.keys() for name, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return None


def imported(source: str) -> set[str]:
    """Name all that is imported anywhere in a module: modules, and what may be one or a name of one."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return names | {f"{node.module}{rest}" for node in froms for rest in ("", *(f".{a.name}" for a in node.names))}
