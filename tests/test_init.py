from __future__ import annotations

import ast
from importlib.metadata import version
from pathlib import Path

import pytest

import kframework


@pytest.mark.parametrize("name", kframework.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(kframework, name) is not None


def test_type_checkers_see_the_names_that_are_loaded() -> None:
    # To a type checker the mark of a hook is that of a method which overrides another.
    assert _imported_for_type_checkers() == kframework._HOMES | {"hookimpl": "typing_extensions"}
    assert sorted(kframework._HOMES) == sorted([*kframework.__all__, "__version__"])


def test_dir_lists_names_that_are_not_loaded_yet() -> None:
    assert set(kframework.__all__) <= set(dir(kframework))


def test_version_is_the_distributions() -> None:
    assert kframework.__version__ == version("kframework-sdk")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kframework' has no attribute 'Plugn'"):
        kframework.Plugn  # type: ignore[attr-defined]  # noqa: B018  # the misspelling is the point


def _imported_for_type_checkers() -> dict[str, str]:
    tree = ast.parse(Path(kframework.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.col_offset == 4]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}
