"""Names that a package re-exports from other modules; a module is imported when one of its names is first used.

The only list of them are the imports under the package's `if TYPE_CHECKING:`, in the form `from module import N as N`.
Type checkers and editors read there what the package exports, and so does `load_on_first_use`. Reading them takes 0.5
ms for `kframework` and 1.5 ms for the 200 names of `kframework.objects`, once per process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module


def load_on_first_use(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `__all__` is loaded on first use as well."""

    @cache
    def modules() -> dict[str, str]:
        from pkgutil import get_data  # here, as `import kframework` alone needs neither this nor a parser

        return type_checking_imports(get_data(package, "__init__.py") or b"")

    def load(name: str) -> object:
        value: object
        if name == "__all__":
            value = [each for each in modules() if not each.startswith("_")]
        elif name in modules():
            value = getattr(import_module(modules()[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules(), "__all__"})

    return load, list_names


def type_checking_imports(source: str | bytes) -> dict[str, str]:
    """Map each name that is imported under `if TYPE_CHECKING:` to the module that it is imported from."""
    import ast

    return {
        alias.name: node.module or ""
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
