"""A kubeconfig is checked before anyone logs in, and its secrets stay in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kframework.client.kubeconfig import read_kubeconfig
from kframework.errors import ConfigError


def config(**other: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "home",
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
        "contexts": [
            {"name": "home", "context": {"cluster": "c", "user": "me"}},
            {"name": "away", "context": {"cluster": "c"}},
        ],
        "users": [{"name": "me", "user": {"token": "s3cret"}}],
    } | other


def write(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return str(path)


def problem(paths: str, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_kubeconfig(paths, context)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_the_current_context(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config())
    found = read_kubeconfig(file)
    assert (found.paths, found.context, dict(found.user.values)) == (file, "home", {"token": "s3cret"})


def test_a_named_context(tmp_path: Path) -> None:
    found = read_kubeconfig(write(tmp_path / "config", config()), "away")
    assert (found.context, dict(found.user.values)) == ("away", {})


def test_several_files(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"users": config()["users"], "current-context": ""})
    second = write(tmp_path / "b", config(users=[{"name": "me", "user": {"token": "other"}}]))
    third = write(tmp_path / "c", {"current-context": "away"})
    found = read_kubeconfig(os.pathsep.join([first, str(tmp_path / "missing"), "", second, third]))
    assert found.paths == os.pathsep.join([first, second, third])
    assert (found.context, dict(found.user.values)) == ("home", {"token": "s3cret"})


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "config", config())
    assert read_kubeconfig("~/config").paths == str(tmp_path / "config")


def test_no_file(tmp_path: Path) -> None:
    files = os.pathsep.join((f"{tmp_path}/a", f"{tmp_path}/b"))
    assert problem(files) == (
        f"{tmp_path}/a or {tmp_path}/b: there is no such file; name a kubeconfig with --kubeconfig or KUBECONFIG"
    )


NO_MAPPING = ":17: users[0].user: must be the mapping that describes user 'me'"


@pytest.mark.parametrize(
    ("content", "context", "text"),
    [
        ("a: [", None, ":2: is not YAML: did not find expected node content"),
        ("- s3cret", None, ": must hold one kubeconfig: a mapping with clusters, contexts and users"),
        ("", None, ": must hold one kubeconfig: a mapping with clusters, contexts and users"),
        ("a: 1\n---\nb: 2\n", None, ": must hold one kubeconfig: a mapping with clusters, contexts and users"),
        (config(**{"current-context": ""}), None, ": has no current-context; name one with --context (home, away)"),
        ({}, None, ": must hold one kubeconfig: a mapping with clusters, contexts and users"),
        ({"kind": "Config"}, None, ": has no current-context; name one with --context (there is none)"),
        (config(), "hom", ": there is no context 'hom' (did you mean 'home'?)"),
        (config(clusters=None), None, ": there is no cluster 'c'"),
        (config(users=[]), None, ": there is no user 'me'"),
        (config(users=[{"name": "me", "token": "s3cret"}]), None, NO_MAPPING),
        (config(users=[{"user": {"token": "s3cret"}}]), None, ":17: users[0]: must be a mapping with a name"),
        (config(users=["s3cret"]), None, ":17: users[0]: must be a mapping with a name"),
        (config(clusters=[{"name": "c", "cluster": {}}]), None, ":6: clusters[0].cluster.server: must be given"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file(tmp_path: Path, content: object, context: str | None, text: str) -> None:
    file = write(tmp_path / "config", content)
    if content == {}:
        file = write(tmp_path / "config", "# nothing")
    assert problem(file, context) == file + text


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert problem(str(tmp_path)) == f"{tmp_path}: cannot be read: Is a directory"
