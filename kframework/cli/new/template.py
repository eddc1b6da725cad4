"""Templates: text with names to fill in (`$plugin`), and lines that are there for some plugins only.

    #if filter filter_columnar
    ...
    #else
    ...
    #end

The lines behind `#if` are kept where one of its words is given, those behind `#else` where none is. Blocks may stand in
one another. A template of a module imports all that it may need: what is not used afterwards is not imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from importlib.resources import files
from string import Template

#: A line may be so long.
_WIDTH = 120


def filled(name: str, words: Set[str], values: Mapping[str, str]) -> str:
    """Return the text of a template with the blocks that hold for these words, and the values in place of names."""
    text = files("kframework.cli.new").joinpath("templates", f"{name}.template").read_text(encoding="utf-8")
    return Template("".join(kept(text, words))).substitute(values)


def kept(text: str, words: Set[str]) -> Iterator[str]:
    """Yield the lines that hold for these words."""
    blocks: list[bool] = []
    for line in text.splitlines(keepends=True):
        match line.split():
            case ["#if", *alternatives]:
                blocks.append(not words.isdisjoint(alternatives))
            case ["#else"]:
                blocks.append(not blocks.pop())
            case ["#end"]:
                blocks.pop()
            case _ if all(blocks):
                yield line


def imports(module: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module, but for those from `__future__`."""
    for node in ast.parse(module).body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
            yield node


def pruned(module: str) -> str:
    """Return a module without the names that it imports and does not use."""
    used = {node.id for node in ast.walk(ast.parse(module)) if isinstance(node, ast.Name)}
    lines = module.splitlines(keepends=True)
    for node in reversed(list(imports(module))):
        node.names = [name for name in node.names if (name.asname or name.name) in used]
        start = node.lineno - 1
        lines[start : node.end_lineno] = _lines(node) if node.names else []
        if lines[start - 1] == lines[start] == "\n":
            del lines[start]  # between sections of which one is gone
    return "".join(lines)


def _lines(node: ast.Import | ast.ImportFrom) -> list[str]:
    line = ast.unparse(node)
    if len(line) <= _WIDTH or not isinstance(node, ast.ImportFrom):
        return [f"{line}\n"]
    return [f"from {node.module} import (\n", *(f"    {name.name},\n" for name in node.names), ")\n"]
