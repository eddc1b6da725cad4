"""The documents as a site: every link leads somewhere, every page is found, and nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.examples.clean_environment import ROOT

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
#: The page of each door, whose names come from the door itself.
REFERENCE = {
    "kframework": "kframework",
    "kframework.framework.hookspecs": "hookspecs",
    "kframework.testing": "testing",
    "kframework.objects": "objects",
    "kframework.engine": "engine",
    "kframework.gym": "gym",
}
#: What `kframework` hands on for kinds of one's own is described with all other kinds.
ELSEWHERE = {("kframework", name) for name in ("ApiObject", "ApiStruct", "ObjectMeta", "kind")}

FAULTY = {
    "index.rst": "Title\n=====\n\n.. toctree::\n\n   page\n   missing\n",
    "page.md": "# Page\n\n[a](nowhere.md) [b](#nowhere) [c](../nowhere) [d](index.rst#nowhere)\n",
    "orphan.md": "# Orphan\n",
}
FAULTS = (
    "toctree contains reference to nonexisting document 'missing'",
    "page.md:3: WARNING: 'myst' cross-reference target not found: 'nowhere.md'",
    "page.md:3: WARNING: 'myst' cross-reference target not found: 'nowhere'",
    "page.md:3: WARNING: 'myst' cross-reference target not found: '../nowhere'",
    "page.md:3: WARNING: local id not found in doc 'index': 'nowhere'",
    "orphan.md: WARNING: document isn't included in any toctree",
)


@pytest.mark.timeout(180)
def test_site_has_no_broken_links(tmp_path: Path) -> None:
    assert build(DOCS, tmp_path) == ""
    assert (tmp_path / "index.html").is_file()
    assert list(foreign_assets(tmp_path)) == []
    assert list(names_without_an_entry(tmp_path)) == []


@pytest.mark.timeout(180)
def test_faults_of_documents_are_reported(tmp_path: Path) -> None:
    documents = tmp_path / "docs"
    documents.mkdir()
    shutil.copy(DOCS / "conf.py", documents)
    for name, text in FAULTY.items():
        (documents / name).write_text(text)
    complaints = build(documents, tmp_path / "site")
    assert [fault for fault in FAULTS if fault not in complaints] == [], complaints


def test_assets_of_other_hosts_are_reported(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<link rel="stylesheet" href="https://a/x.css"><script src="//b/x.js"></script><img alt="" src=\'http://c/x.png\'>'
        '<a href="https://d/">read</a><script src="own.js"></script><link rel="next" href="next.html">'
    )
    (tmp_path / "style.css").write_text(
        '@import "https://e/x.css"; a { background: url(https://f/x.png) url(own.png) }'
    )
    assert [asset.rsplit("/", 2)[-2] for asset in foreign_assets(tmp_path)] == ["a", "b", "c", "e", "f"]


def build(documents: Path, site: Path) -> str:
    """Build the site as `make site` does, with no way to the network; return what there is to complain of."""
    nowhere = "http://127.0.0.1:9"
    result = subprocess.run(
        [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", documents, site],
        env=os.environ | {"http_proxy": nowhere, "https_proxy": nowhere, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert bool(result.stdout) == bool(result.returncode), result.stdout
    return result.stdout


def foreign_assets(site: Path) -> Iterator[str]:
    """Yield what pages and their styles would load from other hosts; a link to click on loads nothing."""
    loads = {
        "*.html": r"""<(?!a\b)\w+\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']+)""",
        "*.css": r"""(?:@import |url\()["']?((?:https?:)?//[^"')]+)""",
    }
    for pattern, load in loads.items():
        for path in sorted(site.rglob(pattern)):
            yield from re.findall(load, path.read_text())


def names_without_an_entry(site: Path) -> Iterator[str]:
    """Yield the public names that the reference lacks."""
    for door, page in REFERENCE.items():
        text = (site / f"reference/api/{page}.html").read_text()
        for name in import_module(door).__all__:
            if f'id="{door}.{name}"' not in text and (door, name) not in ELSEWHERE:
                yield f"{door}.{name}"
