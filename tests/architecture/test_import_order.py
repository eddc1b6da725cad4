"""Imports point down the floors only, type-only imports too: a type from above is a dependency on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import kframework
from tests.architecture.sources import listed, modules

ROOF = 8
FLOORS = {
    unit: floor
    for floor, units in {
        0: "errors quantity selectors clock seeds verbosity loopback slices",
        1: "objects status cycle_state events",
        2: "state current_attempt",
        3: "hookspecs plugin handle",
        4: "config registry profile installed_kinds",
        5: """
            objections points outcome profiles effects attempt queue decision layers scoring cycle afresh budgets
            dry_runs dry_run_memory preemption event_handlers pod_engine plugin_handle
            extender_wire extender extenders extended_search extended_attempt stopwatch watched inquiry score_log
            survey
        """,
        6: """
            tracing trace_export metrics journal recording recording_file recording_privacy recording_scribe recorded
            replaying reconsidering history remedies remedy_changes remedy_obstacles remedy_pod_changes
            remedy_proposals remedy_prospects remedy_trials
        """,
        7: """
            cluster apiserver binding endpoints eviction http_line leader_thread lease outbox scheduler cluster_api
            event_recorder event_series flow_control gate lane metered_transport metrics_endpoints
        """,
        ROOF: """
            plugins onlookers process run fake_api simulate rbac explain report web conformance bench testing
            pytest_plugin engine cli __main__
        """,
    }.items()
    for unit in units.split()
}
#: What kframework/__init__.py defines itself, as opposed to what it hands on.
OF_THE_DOOR = {"API_VERSION", "__version__"}


def test_imports_point_down() -> None:
    problems = [problem for name, path in modules().items() for problem in misplaced_imports(name, path.read_text())]
    assert not problems, listed(problems)


def test_the_kubernetes_client_is_imported_where_a_cluster_is_opened() -> None:
    problems = [problem for name, path in modules().items() for problem in early_client_imports(name, path.read_text())]
    assert not problems, listed(problems)


def misplaced_imports(module: str, source: str) -> Iterator[str]:
    """Yield a sentence for each import of `module` that does not point down."""
    if module == "kframework":  # the door hands on names of every floor
        return
    if unit_of(module) not in FLOORS:
        yield f"{module} stands on no floor; give {unit_of(module)!r} one in {Path(__file__).name}"
        return
    allowed = plugin_may_import if unit_of(module) == "plugins" else other_may_import
    for line, target in imports(module, ast.parse(source)):
        if not ours(target):
            continue
        home = behind_the_door(target)
        if home is not None and not allowed(module, home):
            reason = "is not below it" if unit_of(home) in FLOORS else "stands on no floor"
            yield f"{module}, line {line}: imports {home}, which {reason}"


def other_may_import(module: str, target: str) -> bool:
    """Tell whether the target stands no higher than the module."""
    return FLOORS.get(unit_of(target), ROOF + 1) <= FLOORS[unit_of(module)]


def plugin_may_import(module: str, target: str) -> bool:
    """Tell whether the target is the contract or below it, the Args of the configuration, or the plugin's own file."""
    return (
        FLOORS.get(unit_of(target), ROOF + 1) <= FLOORS["plugin"]
        or is_within(target, "kframework.config.args")
        or is_within(target, ".".join(module.split(".")[:3]))
    )


def early_client_imports(module: str, source: str) -> Iterator[str]:
    """Yield a sentence for each import of the Kubernetes client but those in functions of `cluster/kube.py`."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {line for function in functions for line, _ in imports(module, function)}
    for line, target in imports(module, tree):
        if is_within(target, "kubernetes_asyncio") and not (module == "kframework.cluster.kube" and line in late):
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


def behind_the_door(target: str) -> str | None:
    """Replace a name imported from `kframework` itself by the one it stands for; None for the door's own names."""
    _, _, name = target.partition(".")
    if name in OF_THE_DOOR:
        return None
    home = kframework._HOMES.get(name)
    return f"{home}.{name}" if home else target


def ours(target: str) -> bool:
    return is_within(target, "kframework")


def is_within(target: str, module: str) -> bool:
    return f"{target}.".startswith(f"{module}.")


def unit_of(module: str) -> str:
    """Name the file or folder of kframework that stands on a floor."""
    return module.split(".")[1] if "." in module else module


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("kframework.status", "from kframework.errors import ConfigError"),
        ("kframework.status", "import numpy"),
        ("kframework.status", "import kframeworks_neighbour"),
        ("kframework.state.nodes", "from kframework.state import pods"),
        ("kframework.state.nodes", "from . import pods"),
        ("kframework.registry", "from kframework import API_VERSION"),
        ("kframework.cli", "from kframework import simulate"),
        ("kframework.plugins.node_name", "from kframework import Plugin, hookimpl"),
        ("kframework.plugins.node_name", "from kframework.config.args import NodeNameArgs"),
        ("kframework.plugins.node_name", "from kframework.state.nodes import NodeInfo"),
    ],
)
def test_downward_and_level_imports_pass(module: str, statement: str) -> None:
    assert list(misplaced_imports(module, statement)) == []


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("kframework.errors", "from kframework.status import Status"),
        ("kframework.errors", "from kframework import Status"),
        ("kframework.errors", "import kframework.status"),
        ("kframework.errors", "import kframework"),
        ("kframework.errors", "from .status import Status"),
        ("kframework.state.nodes", "from ..plugin import Plugin"),
        ("kframework.state.nodes", "from kframework import plugin"),
        ("kframework.cycle", "def schedule():\n    from kframework.scheduler import run"),
        ("kframework.plugin", "if TYPE_CHECKING:\n    from kframework.queue.active import QueuedPod"),
        ("kframework.cli.run", "from kframework.unheard_of import thing"),
        ("kframework.plugins.node_name", "from kframework.plugins.node_ports import NodePorts"),
        ("kframework.plugins.node_name", "from kframework.plugins import node_ports"),
        ("kframework.plugins.node_name", "from kframework.config.models import Profile"),
        ("kframework.plugins.node_name", "from kframework.testing import make_pod"),
    ],
)
def test_upward_imports_are_found(module: str, statement: str) -> None:
    (problem,) = misplaced_imports(module, statement)
    assert problem.startswith(f"{module}, line ")


def test_a_module_without_a_floor_is_found() -> None:
    assert list(misplaced_imports("kframework.attic.box", "")) == [
        "kframework.attic.box stands on no floor; give 'attic' one in test_import_order.py"
    ]


def test_early_client_imports_are_found() -> None:
    source = dedent("""\
        import kubernetes_asyncio.client
        async def open():
            from kubernetes_asyncio import config
            import kubernetes_asyncio_twin
    """)
    assert list(early_client_imports("kframework.cluster.kube", source)) == [
        "kframework.cluster.kube, line 1: imports kubernetes_asyncio.client"
    ]
    assert list(early_client_imports("kframework.cluster.lease", source)) == [
        "kframework.cluster.lease, line 1: imports kubernetes_asyncio.client",
        "kframework.cluster.lease, line 3: imports kubernetes_asyncio.config",
    ]
