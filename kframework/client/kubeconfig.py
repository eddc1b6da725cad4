"""Read and check kubeconfig files; error messages contain no secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kframework.config.document import Document, Json, YamlLocation, parse_documents, read_source
from kframework.errors import ConfigError, nearest_name
from kframework.objects.problem import Problem

DEFAULT_FILE = "~/.kube/config"


class KubeconfigEntry(msgspec.Struct, frozen=True):
    """The fields of a cluster or a user, and the folder to which its paths are relative."""

    values: Mapping[str, Json] = {}
    folder: Path = Path()

    def text(self, name: str) -> str:
        """Return the value of a field as text, "" if it is absent."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def path(self, name: str) -> Path | None:
        """Return the file that a field names, None if it is absent."""
        path = self.text(name)
        return self.folder / path if path else None


class KubeConfig(msgspec.Struct, frozen=True):
    """The context in use; `paths` are the files it was found in, separated as in KUBECONFIG, `user` may be empty.

    `server` is the location of the server's address.
    """

    paths: str = ""
    context: str = ""
    user_name: str = ""
    server: YamlLocation = Document(None, {}, {}).at()
    cluster: KubeconfigEntry = KubeconfigEntry()
    user: KubeconfigEntry = KubeconfigEntry()

    @property
    def identity(self) -> str:
        """The context, the user and the files, as messages name them; empty without files."""
        parts = {"context": self.context, "user": self.user_name, "kubeconfig": self.paths}
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value)

    def with_server(self, url: str) -> KubeConfig:
        """Return the same credentials for the server that `--master` names."""
        cluster = replace(self.cluster, values={**self.cluster.values, "server": url})
        return replace(self, cluster=cluster, server=Document("--master", {}, {}).at())


def split_paths(paths: str) -> list[str]:
    return [str(Path(name).expanduser()) for name in paths.split(os.pathsep) if name]


def load_kubeconfig(paths: str, context: str | None = None) -> KubeConfig:
    """Check the files of a path list such as KUBECONFIG, and choose a context, the current one if None.

    Files that do not exist are skipped, as in kubectl, unless all are missing. Raises ConfigError.
    """
    names = split_paths(paths)
    files = [name for name in names if Path(name).exists()]
    if not files:
        raise ConfigError("no such file; name a kubeconfig with --kubeconfig or KUBECONFIG", file=" or ".join(names))
    roots: list[YamlLocation] = []
    for file in files:
        name, text = read_source(file)
        documents = parse_documents(text, name)
        whole = documents[0].data if len(documents) == 1 else None
        if not isinstance(whole, dict) or whole.get("kind", "Config") != "Config":
            raise ConfigError("must hold one kubeconfig: a mapping with clusters, contexts and users", file=name)
        roots.append(documents[0].at())
    context_name = context or next(
        (str(current.value) for root in roots if (current := root / "current-context").value), ""
    )
    if not context_name:
        known = ", ".join(_entries_by_name(roots, "contexts")) or "it has none"
        raise ConfigError(f"has no current-context; name one with --context ({known})", file=files[0])
    context_entry = _find_entry(roots, files, "context", context_name)
    cluster = _find_entry(roots, files, "cluster", _required_text(context_entry, "cluster"))
    _required_text(cluster, "server")
    user_name = str((context_entry / "user").value or "")
    user = _read_entry(_find_entry(roots, files, "user", user_name)) if user_name else KubeconfigEntry()
    paths = os.pathsep.join(files)
    return KubeConfig(paths, context_name, user_name, cluster / "server", _read_entry(cluster), user)


def _read_entry(location: YamlLocation) -> KubeconfigEntry:
    values, file = location.value, location.document.file
    return KubeconfigEntry(values if isinstance(values, dict) else {}, Path(file or "").parent)


def _find_entry(roots: list[YamlLocation], files: list[str], part: str, name: str) -> YamlLocation:
    """Return the first cluster, context or user of this name; ConfigError if there is none."""
    entries = _entries_by_name(roots, f"{part}s")
    if name not in entries:
        raise ConfigError(f"no {part} named {name!r}", file=" or ".join(files), nearest=nearest_name(name, entries))
    entry = entries[name] / part
    if not isinstance(entry.value, dict):
        raise entry.error(Problem((), f"must be the mapping that describes {part} {name!r}"))
    return entry


def _entries_by_name(roots: list[YamlLocation], part: str) -> dict[str, YamlLocation]:
    entries: dict[str, YamlLocation] = {}
    for root in roots:
        items = (root / part).value
        for index in range(len(items) if isinstance(items, list) else 0):
            entry = root / part / index
            name = (entry / "name").value
            if not isinstance(name, str):
                raise entry.error(Problem((), "must be a mapping with a name"))
            entries.setdefault(name, entry)
    return entries


def _required_text(location: YamlLocation, field: str) -> str:
    value = (location / field).value
    if not isinstance(value, str) or not value:
        raise location.error(Problem((field,), "must be given"))
    return value
