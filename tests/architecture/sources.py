"""The source files that the architecture tests read."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    """Map the dotted name of each module of kframework to its file; a package goes by its own name."""
    return {dotted(path): path for path in sorted(ROOT.glob("kframework/**/*.py"))}


def dotted(path: Path) -> str:
    """Spell a file under the root as a module name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def listed(problems: Collection[str]) -> str:
    """Join problems to a message, one a line."""
    return "\n" + "\n".join(problems)


@cache
def parse(source: str) -> ast.Module:
    """Parse a source once for all rules, which change no tree; a dozen rules read the same 800 files."""
    return ast.parse(source)
