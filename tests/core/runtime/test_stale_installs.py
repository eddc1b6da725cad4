"""What an editable install has not noticed yet is found where its project says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kframework.core.runtime.registry import GROUP, stale_install_remedy

PROJECT = f"""[project.entry-points."{GROUP}"]
Mine = "mine:Mine"
"""


def installed(folder: Path, direct: object) -> None:
    """Leave behind what pip does for the distribution `mine`, without entry points."""
    metadata = folder / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (metadata / "direct_url.json").write_text(json.dumps(direct))


def editable(project: Path) -> object:
    return {"url": project.as_uri(), "dir_info": {"editable": True}}


def test_stale_editable_install_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "a project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    installed(tmp_path, editable(project))
    monkeypatch.syspath_prepend(tmp_path)
    assert stale_install_remedy(GROUP, "Mine") == (
        f"{project}/pyproject.toml offers it, but mine 1.0 was installed before that: install it again, as with"
        f" pip install --editable {project}"
    )
    assert stale_install_remedy(GROUP, "Other") == stale_install_remedy("other.group", "Mine") == ""


@pytest.mark.parametrize("text", [None, "not TOML", "", '[project]\nentry-points = "none"', "\xff"])
def test_unreadable_project_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    installed(tmp_path, editable(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert stale_install_remedy(GROUP, "Mine") == ""


def test_regular_install_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    installed(tmp_path, {"url": tmp_path.as_uri(), "dir_info": {}})
    monkeypatch.syspath_prepend(tmp_path)
    assert stale_install_remedy(GROUP, "Mine") == ""
