"""The doors hand on the names that type checkers see, each loaded when it is first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

import pytest

import kframework
from kframework.lazy_names import load_on_first_use, type_checking_imports

DOORS = ("kframework", "kframework.objects", "kframework.testing", "kframework.engine")


@pytest.mark.parametrize("door", DOORS)
def test_every_exported_name_is_loaded_from_its_module(door: str) -> None:
    module = import_module(door)
    homes = type_checking_imports(Path(str(module.__file__)).read_text())
    assert module.__all__ == [name for name in homes if name != "__version__"]
    for name, home in homes.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("door", DOORS)
def test_dir_lists_names_that_are_not_loaded_yet(door: str) -> None:
    code = f"import {door}; assert set({door}.__all__) <= set(dir({door})), dir({door})"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_star_import_loads_every_name() -> None:
    namespace: dict[str, object] = {}
    exec("from kframework import *", namespace)
    assert {"Plugin", "hookimpl", "API_VERSION"} <= namespace.keys()
    assert "__version__" not in namespace


def test_version_equals_that_of_the_distribution() -> None:
    assert kframework.__version__ == version("kframework-sdk")


@pytest.mark.parametrize("door", DOORS)
def test_unknown_name_raises_attribute_error(door: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{door}' has no attribute 'Plugn'"):
        _ = import_module(door).Plugn


def test_loaded_name_is_kept_in_the_package() -> None:
    load, _ = load_on_first_use("kframework.objects")
    vars(kframework.objects).pop("Taint", None)
    assert load("Taint") is vars(kframework.objects)["Taint"]


def test_only_type_checking_imports_are_exported() -> None:
    source = """
        from kframework.errors import nearest_name
        if TYPE_CHECKING:
            from kframework.clock import (
                Clock as Clock,
                outside as outside,
            )
        else:
            from kframework.verbosity import NOTICE
        """
    assert type_checking_imports(dedent(source)) == {"Clock": "kframework.clock", "outside": "kframework.clock"}
