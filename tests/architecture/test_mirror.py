"""The tests mirror the package, so that the tests of a module are found without a search."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, modules, parse

#: Modules without tests of their own, each with the reason.
TESTED_ELSEWHERE: dict[str, str] = {
    "kframework.core.attempt_follower": "a base that does nothing: core/shadow/test_follower.py",
    "kframework.core.dry_engine": "what observe/recording/test_reconsider.py decides with",
    "kframework.core.shadow.difference": "the differences of core/shadow/test_shadow.py",
    "kframework.core.shadow.engine": "the engine of core/shadow/test_shadow.py",
    "kframework.core.pod_outcomes": "the other half of core/pod_engine.py, tested with it",
    "kframework.cel.closures": "what cel/test_compiler.py evaluates",
    "kframework.cel.functions": "declarations, which cel/library/ calls",
    "kframework.cel.evaluation": "what cel/test_compiler.py evaluates in",
    "kframework.cel.syntax": "records without behaviour, made by cel/test_parser.py",
    "kframework.plugins.dynamic_resources.args": "the Args of all built-in plugins: config/test_args.py",
    "kframework.plugins.node_resources_fit.args": "the Args of all built-in plugins: config/test_args.py",
    "kframework.plugins.shared_args": "the Args of all built-in plugins: config/test_args.py",
    "kframework.config.decode": "fields and errors of what config/test_load.py and config/test_args.py read",
    "kframework.config.default_plugins": "a table, compared with the expansion in config/test_expand.py",
    "kframework.config.models": "the fields that config/test_load.py fills in",
    "kframework.in_memory.workloads.dependents": "adoption and release, in test_replica_set.py",
    "kframework.core.engine": "abstract; derived engines are tried in test_pod_engine.py and observe/web/test_page.py",
    "kframework.framework.group_hookspecs": "the hooks of groups among those of framework/test_hookspecs.py",
    "kframework.framework.handle": "Protocols; what stands behind them is tried in test_plugin_handle.py",
    "kframework.core.cycle.scoring": "the second half of a search: test_search.py",
    "kframework.capacity.fit_result": "records without behaviour: test_fit.py, test_text.py",
    "kframework.cli.ask_scheduler": "the questions of cli/test_explain.py",
    "kframework.core.cycle.results": "records without behaviour: test_search.py, test_attempt.py",
}


def test_every_module_has_tests() -> None:
    problems = [
        f"{name}: there is no {test}; write it, or say why not in {Path(__file__).name}"
        for name, path in modules().items()
        if name not in TESTED_ELSEWHERE and not only_joins(path.read_text())
        if (test := missing_test(ROOT, path.relative_to(ROOT)))
    ]
    assert not problems, listed(problems)


def test_exceptions_are_not_stale() -> None:
    untested = {name for name, path in modules().items() if missing_test(ROOT, path.relative_to(ROOT))}
    assert TESTED_ELSEWHERE.keys() <= untested


def missing_test(root: Path, module: Path) -> Path | None:
    """Answer the test file that the module at a path under the root lacks, None when it has one.

    The tests of `state/nodes.py` are `state/test_nodes.py` or a folder `state/test_nodes/`; those of a package's
    `__init__.py` are `test_init.py`.
    """
    test = Path("tests", *module.parts[1:-1], f"test_{module.stem.strip('_')}.py")
    found = (root / test).exists() or any((root / test.with_suffix("")).glob("test_*.py"))
    return None if found else test


def only_joins(source: str) -> bool:
    """Return whether a module defines nothing itself, as a package's `__init__` that only has a docstring."""
    return not any(
        isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(parse(source))
    )


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("kframework/values/status.py", "tests/values/test_status.py"),
        ("kframework/state/nodes.py", "tests/state/test_nodes.py"),
        ("kframework/state/nodes.py", "tests/state/test_nodes/test_columns.py"),
        ("kframework/__init__.py", "tests/test_init.py"),
    ],
)
def test_module_with_tests_passes(tmp_path: Path, module: str, test: str) -> None:
    (tmp_path / test).parent.mkdir(parents=True)
    (tmp_path / test).touch()
    assert missing_test(tmp_path, Path(module)) is None


def test_module_without_tests_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_nodes.py").touch()
    assert missing_test(tmp_path, Path("kframework/state/nodes.py")) == Path("tests/state/test_nodes.py")


def test_package_that_only_imports_needs_no_tests() -> None:
    assert only_joins('"""The state."""\nfrom kframework.state.nodes import NodeTable')
    assert not only_joins('"""The state."""\ndef table(): ...')
