"""What stands in the package of a new plugin, and what it may be called."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass

from kframework.cli.new.points import forms, summary
from kframework.cli.new.template import filled, imports, pruned
from kframework.config.default_plugins import IN_TREE_PLUGINS

_KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

#: Modules, beside those of Python, that the package imports or is tested and checked with.
_MODULES = {"kframework", "mypy", "numpy", "pydantic", "pytest", "ruff", "tests"}


@dataclass(frozen=True)
class Names:
    """What a plugin is called: its distribution `few-pods`, the module `few_pods`, the class `FewPods`."""

    distribution: str

    @property
    def module(self) -> str:
        """The name of the Python package."""
        return self.distribution.replace("-", "_")

    @property
    def plugin(self) -> str:
        """The name of the class, and of the plugin in a configuration."""
        return "".join(word.capitalize() for word in self.distribution.split("-"))


def names_of(distribution: str) -> Names:
    """Return the names that follow from the distribution's; ValueError says why it will not do, and what would."""
    if not _KEBAB.fullmatch(distribution):
        better = _kebab(distribution)
        hint = f", such as {better!r}" if _KEBAB.fullmatch(better) else ""
        raise ValueError(f"{distribution!r} is no name; write a letter, then small letters, digits and dashes{hint}")
    names = Names(distribution)
    taken = ""
    if keyword.iskeyword(names.module):
        taken = f"{names.module!r} is a word of Python"
    elif names.module in sys.stdlib_module_names | _MODULES:
        taken = f"there is a module {names.module!r} already"
    elif names.plugin in IN_TREE_PLUGINS:
        taken = f"kube-scheduler has a plugin {names.plugin}"
    elif not _imported(names).isdisjoint({names.plugin, f"{names.plugin}Args"}):
        taken = f"its class {names.plugin} would hide what it imports"
    if taken:
        raise ValueError(f"{distribution!r} will not do, as {taken}; choose another, such as 'my-{distribution}'")
    return names


def _kebab(text: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _imported(names: Names) -> Set[str]:
    """Return the names that the plugin and its tests may import from elsewhere."""
    modules = (filled(name, frozenset(), _values(names, "")) for name in ("plugin.py", "test_plugin.py"))
    found = (node for module in modules for node in imports(module) if getattr(node, "module", None) != names.module)
    return {name.asname or name.name for node in found for name in node.names}


def _values(names: Names, purpose: str) -> Mapping[str, str]:
    return {
        "name": names.distribution,
        "module": names.module,
        "plugin": names.plugin,
        "summary": purpose,
        "Summary": purpose[:1].upper() + purpose[1:],
    }


def package(names: Names, points: Set[str], options: Set[str]) -> Mapping[str, str]:
    """Return the text of each file, by its path in the package's folder; options choose the forms of the points."""
    words = forms(points, options)
    values = _values(names, summary(points))
    plugin = pruned(filled("plugin.py", words, values))
    uses = {library for library in ("numpy", "pydantic") if re.search(rf"^(import|from) {library} ", plugin, re.M)}
    return {
        ".github/workflows/test.yaml": filled("ci.yaml", words, values),
        ".gitignore": filled("gitignore", words, values),
        "README.md": filled("README.md", words, values),
        "cluster.yaml": filled("cluster.yaml", words, values),
        "config.yaml": filled("config.yaml", words, values),
        "pyproject.toml": filled("pyproject.toml", words | uses, values),
        f"{names.module}/__init__.py": filled("init.py", words, values),
        f"{names.module}/plugin.py": plugin,
        f"{names.module}/py.typed": "",
        f"tests/test_{names.module}.py": pruned(filled("test_plugin.py", words, values)),
    }
