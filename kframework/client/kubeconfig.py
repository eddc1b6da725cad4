"""Kubeconfig files: what must be right in them before anyone logs in; what is wrong is told without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kframework.config.document import Json, Place, parse_documents, read_source
from kframework.errors import ConfigError, nearest
from kframework.objects.problem import Problem

DEFAULT_FILE = "~/.kube/config"


class Entry(msgspec.Struct, frozen=True):
    """A cluster or a user: what it says, and the folder from which its paths lead."""

    values: Mapping[str, Json] = {}
    folder: Path = Path()

    def text(self, name: str) -> str:
        """Return what is said of this, "" if nothing is."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def path(self, name: str) -> Path | None:
        """Return the file that is named as this, None if none is."""
        named = self.text(name)
        return self.folder / named if named else None


class KubeConfig(msgspec.Struct, frozen=True):
    """The context in use; `paths` are the files it was found in, as KUBECONFIG names them, `user` may be empty.

    `server` is where the server's address stands.
    """

    paths: str
    context: str
    server: Place
    cluster: Entry
    user: Entry


def named_files(paths: str) -> list[str]:
    """List the files of a path list as KUBECONFIG is one."""
    return [str(Path(name).expanduser()) for name in paths.split(os.pathsep) if name]


def read_kubeconfig(paths: str, context: str | None = None) -> KubeConfig:
    """Check the files of a path list as KUBECONFIG is one, and choose a context, the current one if None is named.

    Files that do not exist are passed over, as kubectl does, if one of them does. Raises ConfigError.
    """
    names = named_files(paths)
    files = [name for name in names if Path(name).exists()]
    if not files:
        raise ConfigError(
            "there is no such file; name a kubeconfig with --kubeconfig or KUBECONFIG", file=" or ".join(names)
        )
    places: list[Place] = []
    for file in files:
        name, text = read_source(file)
        documents = parse_documents(text, name)
        if len(documents) != 1 or not isinstance(documents[0].data, dict):
            raise ConfigError("must hold one kubeconfig: a mapping with clusters, contexts and users", file=name)
        places.append(documents[0].at())
    chosen = context or next((str(now) for place in places if (now := (place / "current-context").value)), "")
    if not chosen:
        known = ", ".join(_named(places, "contexts")) or "there is none"
        raise ConfigError(f"has no current-context; name one with --context ({known})", file=files[0])
    of_context = _part(places, files, "context", chosen)
    cluster = _part(places, files, "cluster", _text(of_context, "cluster"))
    _text(cluster, "server")
    user = (of_context / "user").value
    identity = _entry(_part(places, files, "user", str(user))) if user else Entry()
    return KubeConfig(os.pathsep.join(files), chosen, cluster / "server", _entry(cluster), identity)


def _entry(place: Place) -> Entry:
    values, file = place.value, place.document.file
    return Entry(values if isinstance(values, dict) else {}, Path(file or "").parent)


def _part(places: list[Place], files: list[str], part: str, name: str) -> Place:
    """Find a named cluster, context or user, the first of this name."""
    named = _named(places, f"{part}s")
    if name not in named:
        raise ConfigError(f"there is no {part} {name!r}", file=" or ".join(files), nearest=nearest(name, named))
    found = named[name] / part
    if not isinstance(found.value, dict):
        raise found.error(Problem((), f"must be the mapping that describes {part} {name!r}"))
    return found


def _named(places: list[Place], part: str) -> dict[str, Place]:
    named: dict[str, Place] = {}
    for place in places:
        entries = (place / part).value
        for index in range(len(entries) if isinstance(entries, list) else 0):
            entry = place / part / index
            name = (entry / "name").value
            if not isinstance(name, str):
                raise entry.error(Problem((), "must be a mapping with a name"))
            named.setdefault(name, entry)
    return named


def _text(place: Place, field: str) -> str:
    value = (place / field).value
    if not isinstance(value, str) or not value:
        raise place.error(Problem((field,), "must be given"))
    return value
