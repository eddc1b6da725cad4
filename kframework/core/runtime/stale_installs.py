"""Plugins that the project of an editable install offers by now, and its metadata do not: it was installed before."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def stale_install(group: str, name: str) -> str:
    """Return what to do to have a plugin of this name, if only installing a project again is lacking; else ""."""
    for distribution, project in _editable():
        if name in _offered(project, group):
            told = f"{project} offers it, but {distribution.name} {distribution.version} was installed before that"
            return f"{told}: install it again, as with pip install --editable {project.parent}"
    return ""


def _editable() -> Iterator[tuple[Distribution, Path]]:
    """List the distributions that are installed as editable, each with its pyproject.toml."""
    for distribution in distributions():
        direct = json.loads(distribution.read_text("direct_url.json") or "{}")
        if direct.get("dir_info", {}).get("editable"):
            yield distribution, Path(url2pathname(urlsplit(direct["url"]).path), "pyproject.toml")


def _offered(project: Path, group: str) -> dict[str, Any]:
    """Return the entry points of a group as a project names them; none of a file that cannot be read."""
    try:
        groups = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
        offered: dict[str, Any] = dict(groups[group])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return offered
