"""A kubeconfig is checked before anyone logs in, and its secrets stay in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kframework.client.kubeconfig import load_kubeconfig
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
        load_kubeconfig(paths, context)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_current_context_is_used_by_default(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config())
    found = load_kubeconfig(file)
    assert (found.paths, found.context, dict(found.user.values)) == (file, "home", {"token": "s3cret"})


def test_named_context_is_used(tmp_path: Path) -> None:
    found = load_kubeconfig(write(tmp_path / "config", config()), "away")
    assert (found.context, dict(found.user.values)) == ("away", {})


def test_several_files_are_merged(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"users": config()["users"], "current-context": ""})
    second = write(tmp_path / "b", config(users=[{"name": "me", "user": {"token": "other"}}]))
    third = write(tmp_path / "c", {"current-context": "away"})
    found = load_kubeconfig(os.pathsep.join([first, str(tmp_path / "missing"), "", second, third]))
    assert found.paths == os.pathsep.join([first, second, third])
    assert (found.context, dict(found.user.values)) == ("home", {"token": "s3cret"})


def test_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "config", config())
    assert load_kubeconfig("~/config").paths == str(tmp_path / "config")


def test_missing_files_are_a_config_error(tmp_path: Path) -> None:
    files = os.pathsep.join((f"{tmp_path}/a", f"{tmp_path}/b"))
    assert problem(files) == (
        f"{tmp_path}/a or {tmp_path}/b: no such file; name a kubeconfig with --kubeconfig or KUBECONFIG"
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
        ({"kind": "List"}, None, ": must hold one kubeconfig: a mapping with clusters, contexts and users"),
        ({"kind": "Config"}, None, ": has no current-context; name one with --context (it has none)"),
        (config(), "hom", ": no context named 'hom' (did you mean 'home'?)"),
        (config(clusters=None), None, ": no cluster named 'c'"),
        (config(users=[]), None, ": no user named 'me'"),
        (config(users=[{"name": "me", "token": "s3cret"}]), None, NO_MAPPING),
        (config(users=[{"user": {"token": "s3cret"}}]), None, ":17: users[0]: must be a mapping with a name"),
        (config(users=["s3cret"]), None, ":17: users[0]: must be a mapping with a name"),
        (config(clusters=[{"name": "c", "cluster": {}}]), None, ":6: clusters[0].cluster.server: must be given"),
    ],
)  # fmt: skip
def test_invalid_file_is_a_config_error(tmp_path: Path, content: object, context: str | None, text: str) -> None:
    file = write(tmp_path / "config", content)
    if content == {}:
        file = write(tmp_path / "config", "# nothing")
    assert problem(file, context) == file + text


def test_unreadable_file_is_a_config_error(tmp_path: Path) -> None:
    assert problem(str(tmp_path)) == f"{tmp_path}: cannot be read: Is a directory"
