"""Imports point up the list of rooms only, and no modules import each other in a circle, not even for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from kframework.lazy_names import type_checking_imports
from tests.architecture.rooms import ROOMS
from tests.architecture.sources import ROOT, listed, modules, parse

#: Rooms within a room, ground first: they import nothing of it but those before them, and themselves.
WITHIN = {"kframework.fake_api": ("patch", "wire", "printers")}
#: Where the names are at home that kframework/__init__.py hands on.
HOMES = type_checking_imports((ROOT / "kframework/__init__.py").read_text())
#: What the Args of built-in plugins are made of.
OF_ARGS = (
    *(f"kframework.config.{module}" for module in ("args", "decode", "duration")),
    "kframework.plugins.shared_args",
)
#: Plugins that look at what another one knows: extended resources may be devices.
NEIGHBOURS = {
    "kframework.plugins.node_resources_fit": "kframework.plugins.dynamic_resources",
    "kframework.plugins.node_resources_balanced_allocation": "kframework.plugins.dynamic_resources",
}
#: Where the Kubernetes client may be imported, inside functions.
CLIENTS = ("kframework.client.kube", "kframework.testing.api_server")


def test_imports_follow_the_order_of_packages() -> None:
    problems = [problem for name, path in modules().items() for problem in misplaced_imports(name, path.read_text())]
    assert not problems, listed(problems)


def test_no_imports_are_circular() -> None:
    packages = {dotted for dotted, path in modules().items() if path.name == "__init__.py"}
    circle = circle_in({name: path.read_text() for name, path in modules().items()}, packages)
    assert circle == [], f"a circle of imports: {' -> '.join(circle)}"


@pytest.mark.parametrize("room", WITHIN)
def test_imports_within_a_package_follow_its_order(room: str) -> None:
    homes = [f"{room}.{name}" for name in WITHIN[room]]
    problems = [
        f"{name}, line {line}: imports {target}"
        for name, path in modules().items()
        for place, home in enumerate(homes)
        if is_within(name, home)
        for line, target in imports(name, parse(path.read_text()))
        if is_within(target, room) and not any(is_within(target, other) for other in homes[: place + 1])
    ]
    assert not problems, listed(problems)


def test_root_has_few_modules() -> None:
    assert len(list((ROOT / "kframework").glob("*.py"))) <= 6


@pytest.mark.slow
def test_kubernetes_client_is_imported_only_to_open_a_cluster() -> None:
    problems = [problem for name, path in modules().items() for problem in early_client_imports(name, path.read_text())]
    assert not problems, listed(problems)


def misplaced_imports(module: str, source: str) -> Iterator[str]:
    """Yield a sentence for each import of `module` that does not point up the list."""
    if module == "kframework":  # the door hands on names of every room
        return
    if room_of(module) is None:
        yield f"{module} stands in no room; name its room in {Path(__file__).name}"
        return
    for line, target in imports(module, parse(source)):
        if not ours(target):
            continue
        home = behind_the_door(target)
        if may_import(module, home):
            continue
        reason = "is not before it in the list of rooms" if room_of(home) else "stands in no room"
        yield f"{module}, line {line}: imports {home}, which {reason}"


def may_import(module: str, target: str) -> bool:
    """Return whether the target's room is the module's own or before it; plugins see less than others."""
    own, other = room_of(module), room_of(target)
    if own == "plugins":
        return plugin_may_import(module, target)
    return own is not None and other is not None and ROOMS.index(other) <= ROOMS.index(own)


def plugin_may_import(module: str, target: str) -> bool:
    """Return whether the target is the contract, the state or below, what Args are of, its own or its neighbour's."""
    room, own = room_of(target), ".".join(module.split(".")[:3])
    return (
        (room is not None and ROOMS.index(room) <= ROOMS.index("framework"))
        or any(is_within(target, home) for home in OF_ARGS)
        or is_within(target, own)
        or (own in NEIGHBOURS and is_within(target, NEIGHBOURS[own]))
    )


def circle_in(sources: Mapping[str, str], packages: set[str]) -> list[str]:
    """Return the modules of one circle of imports, the first of them again at the end; [] where there is none."""
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        if module == "kframework":
            continue
        origin = f"{module}.__init__" if module in packages else module
        targets = graph.setdefault(module, set())
        for _, target in imports(origin, parse(source)):
            if ours(target):
                home = behind_the_door(target)
                targets.add(home if home in sources else home.rpartition(".")[0])
        targets -= {module, "kframework"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def early_client_imports(module: str, source: str) -> Iterator[str]:
    """Yield a sentence for each import of the Kubernetes client but those of two modules, in functions or for types."""
    tree = parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {line for part in (*functions, *type_blocks(tree)) for line, _ in imports(module, part)}
    for line, target in imports(module, tree):
        if is_within(target, "kubernetes_asyncio") and not (module in CLIENTS and line in late):
            yield f"{module}, line {line}: imports {target}"


def imports(module: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything that is imported anywhere in the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*package, *filter(None, [node.module])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def type_blocks(tree: ast.AST) -> Iterator[ast.If]:
    """Yield the blocks that only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


def behind_the_door(target: str) -> str:
    """Replace a name imported from `kframework` itself by the one it re-exports."""
    _, _, name = target.partition(".")
    return f"{HOMES[name]}.{name}" if name in HOMES else target


def ours(target: str) -> bool:
    return is_within(target, "kframework")


def is_within(target: str, module: str) -> bool:
    return f"{target}.".startswith(f"{module}.")


def room_of(module: str) -> str | None:
    """Name the room of a module of kframework; None if it is in none."""
    inside = module.partition(".")[2]
    return max((room for room in ROOMS if is_within(inside, room)), key=len, default=None)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("kframework.values.status", "from kframework.errors import ConfigError"),
        ("kframework.values.status", "import numpy"),
        ("kframework.values.status", "import kframeworks_neighbour"),
        ("kframework.framework.plugin", "if TYPE_CHECKING:\n    from kframework.state.pods import PodInfo"),
        ("kframework.state.nodes", "from kframework.state import pods"),
        ("kframework.state.nodes", "from . import pods"),
        ("kframework.core.runtime.registry", "from kframework import API_VERSION"),
        ("kframework.core.cycle.search", "from kframework.core.runtime.profile import Profile"),
        ("kframework.core.pod_engine", "from kframework.core.cycle.search import Search"),
        ("kframework.cli", "from kframework.simulation.simulation import simulate"),
        ("kframework.plugins.node_name", "from kframework import Plugin, hookimpl"),
        ("kframework.plugins.node_name", "from kframework.config.args import ApiArgs"),
        ("kframework.plugins.node_name", "from kframework.state.nodes import NodeInfo"),
        ("kframework.plugins.node_resources_fit.plugin", "import kframework.plugins.dynamic_resources.inventory"),
    ],
)
def test_imports_in_order_pass(module: str, statement: str) -> None:
    assert list(misplaced_imports(module, statement)) == []


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("kframework.errors", "from kframework.values.status import Status"),
        ("kframework.errors", "from kframework import Status"),
        ("kframework.errors", "import kframework.values.status"),
        ("kframework.errors", "import kframework"),
        ("kframework.errors", "from .framework.status import Status"),
        ("kframework.state.nodes", "from ..config.models import Profile"),
        ("kframework.state.nodes", "from kframework import config"),
        ("kframework.core.cycle.search", "def schedule():\n    from kframework.scheduler.scheduler import Scheduler"),
        ("kframework.core.cycle.search", "from kframework.core.host import Host"),
        ("kframework.core.runtime.profile", "from kframework.core.cycle.search import Search"),
        ("kframework.state.pods", "if TYPE_CHECKING:\n    from kframework.framework.plugin import Plugin"),
        ("kframework.framework.plugin", "if TYPE_CHECKING:\n    from kframework.core.queue.heap import Heap"),
        ("kframework.cli.run", "from kframework.unheard_of import thing"),
        ("kframework.cli.run", "from kframework.engine import Scheduler"),
        ("kframework.plugins.node_name", "from kframework.plugins.node_ports import NodePorts"),
        ("kframework.plugins.node_name", "from kframework.plugins import node_ports"),
        ("kframework.plugins.node_name", "from kframework.plugins.dynamic_resources.inventory import Inventory"),
        ("kframework.plugins.dynamic_resources.plugin", "from kframework.plugins.node_resources_fit import plugin"),
        ("kframework.plugins.node_name", "from kframework.config.models import Profile"),
        ("kframework.plugins.node_name", "from kframework.testing import make_pod"),
    ],
)
def test_imports_against_the_order_are_reported(module: str, statement: str) -> None:
    (problem,) = misplaced_imports(module, statement)
    assert problem.startswith(f"{module}, line ")


def test_module_without_a_package_is_reported() -> None:
    assert list(misplaced_imports("kframework.attic.box", "")) == [
        "kframework.attic.box stands in no room; name its room in test_import_order.py"
    ]


@pytest.mark.parametrize(
    "sources",
    [
        {"kframework.state.a": "from kframework.state import b", "kframework.state.b": "import kframework.state.a"},
        {
            "kframework.state.a": "from kframework.state.b import B",
            "kframework.state.b": "if TYPE_CHECKING:\n    from kframework.state.a import A",
        },
        {
            "kframework.state": "from kframework.state.a import A",
            "kframework.state.a": "from kframework.state.b import B",
            "kframework.state.b": "def late():\n    from kframework.state import A",
        },
        {"kframework.state": "from .a import A", "kframework.state.a": "from . import A"},
    ],
)
def test_circular_import_is_reported(sources: Mapping[str, str]) -> None:
    packages = {"kframework.state"} & sources.keys()
    circle = circle_in(sources, packages)
    assert circle[0] == circle[-1] and set(circle) == sources.keys()


@pytest.mark.parametrize(
    "sources",
    [
        {"kframework.state.a": "from kframework.state.b import B", "kframework.state.b": "import numpy"},
        {
            "kframework.state": "from kframework.state.a import A",
            "kframework.state.a": "from kframework.clock import x",
        },
    ],
)
def test_tree_of_imports_passes(sources: Mapping[str, str]) -> None:
    assert circle_in(sources, {"kframework.state"} & sources.keys()) == []


def test_early_client_imports_are_reported() -> None:
    source = dedent("""\
        import kubernetes_asyncio.client
        async def open():
            from kubernetes_asyncio import config
            import kubernetes_asyncio_twin
    """)
    for client in CLIENTS:
        assert list(early_client_imports(client, source)) == [f"{client}, line 1: imports kubernetes_asyncio.client"]
    assert list(early_client_imports("kframework.process.lease", source)) == [
        "kframework.process.lease, line 1: imports kubernetes_asyncio.client",
        "kframework.process.lease, line 3: imports kubernetes_asyncio.config",
    ]
