"""Lists, in pages if the client wants them: all pages show the moment of the first."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.fake_api.collection import Collection, Key
from kframework.fake_api.selection import Selection
from kframework.fake_api.wire.documents import Document


class Page(NamedTuple):
    """Part of a list: its objects, and the metadata that the list carries."""

    documents: list[Document]
    metadata: dict[str, str | int]


class _Token(msgspec.Struct, frozen=True):
    """Where a list goes on: the version that it shows, and the last object that has been shown."""

    version: int
    namespace: str
    name: str


def listed(collection: Collection, selection: Selection, query: Mapping[str, str]) -> Page:
    """List what is selected, as `limit`, `continue` and `resourceVersion` of the query want it.

    ClusterError 400 for a query that makes no sense, 410 for a version that is forgotten, 504 for one still to come.
    """
    _check(query)
    limit = _limit(query)
    if query.get("continue"):
        token = _read(query["continue"])
        if token.version > collection.version:
            raise api_errors.expired(token.version, collection.version)  # of another server
        version, after = token.version, (token.namespace, token.name)
    else:
        version, after = _version(collection, query), ("", "")
    documents: list[Document] = []
    for document in _candidates(collection, selection, version, after):
        if selection.selects(document):
            if limit and len(documents) == limit:
                last = documents[-1]
                metadata: dict[str, str | int] = {
                    "resourceVersion": str(version),
                    "continue": _written(version, last.key),
                }
                if selection.selects_all:
                    metadata["remainingItemCount"] = collection.count(selection.namespace, last.key)
                return Page(documents, metadata)
            documents.append(document)
    return Page(documents, {"resourceVersion": str(version)})


def _candidates(collection: Collection, selection: Selection, version: int, after: Key) -> Iterator[Document]:
    is_named = selection.name and (selection.namespace or not collection.kind.namespaced)
    if is_named and version == collection.version:
        found = collection.find((selection.namespace, selection.name))
        return iter([found] if found is not None else [])
    return collection.at(version, selection.namespace, after)


def _version(collection: Collection, query: Mapping[str, str]) -> int:
    """Say which moment the list shows: now, unless it must be exactly another."""
    wanted = number(query, "resourceVersion")
    if wanted > collection.version:
        raise too_large(wanted, collection.version)
    return wanted if query.get("resourceVersionMatch") == "Exact" else collection.version


def _limit(query: Mapping[str, str]) -> int:
    """Return how many objects a page has at most; 0, also for a negative number, is no limit."""
    text = query.get("limit", "")
    return 0 if text.startswith("-") and number({"limit": text[1:]}, "limit") else number(query, "limit")


def _check(query: Mapping[str, str]) -> None:
    """Raise ClusterError 422 for options that do not go together, in the words of apimachinery's validation."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if not match:
        if query.get("continue") and version not in ("", "0"):
            raise api_errors.bad_request("specifying resource version is not allowed when using continue")
        return
    if not version:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif query.get("continue"):
        why = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    elif match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match:.100}": supported values: "Exact", "NotOlderThan", ""'
    elif match == "Exact" and version == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    else:
        return
    message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {why}'
    raise ClusterError(message, status=422, reason="Invalid")


def number(query: Mapping[str, str], name: str) -> int:
    """Read a number from a query, 0 if it is not there; ClusterError 400 if it is none."""
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise api_errors.bad_request(
            f"{name}: Invalid value: {msgspec.json.encode(text).decode():.100}: it must be a number"
        )
    return int(text)


def too_large(wanted: int, current: int) -> ClusterError:
    """Say that a version is still to come: the client has seen another server, or this one before it was restarted."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ClusterError(message, status=504, reason="Timeout", retryable=True, causes=(cause,))


def _written(version: int, key: Key) -> str:
    token = msgspec.json.encode(_Token(version, *key))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _read(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except ValueError as error:
        raise api_errors.bad_request(
            "continue key is not valid: it is none that a list of this server ended with"
        ) from error
