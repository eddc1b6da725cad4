"""Fields that stand twice in a JSON text: the last one counts, and who is strict refuses them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from kframework.client import api_errors
from kframework.objects.problem import FieldPath


class _Object(dict[str, object]):
    """A JSON object in which names stand twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = [name for name in self if names.count(name) > 1]


def duplicates(body: bytes) -> list[FieldPath]:
    """List the fields of a JSON text that stand twice; ClusterError 400 for one that is nested too deeply."""
    return [] if _has_no_more_strings_than_it_says(body) else _found(body)


def _has_no_more_strings_than_it_says(body: bytes) -> bool:
    """Return whether the text has no more strings than what is read of it, where they can be counted by their quotes.

    That takes a fifth of the time of a reader of pairs. A field that stands twice is a string more.
    """
    if b"\\" in body:
        return False
    try:
        return body.count(b'"') == msgspec.json.encode(msgspec.json.decode(body)).count(b'"')
    except (ValueError, RecursionError):
        return False


def _found(body: bytes) -> list[FieldPath]:
    found: list[_Object] = []

    def read(pairs: list[tuple[str, object]]) -> dict[str, object]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        found.append(_Object(pairs))
        return found[-1]

    try:
        data = json.loads(body, object_pairs_hook=read)
        return list(_paths(data, ())) if found else []
    except RecursionError as error:
        raise api_errors.bad_request("the body of the request is nested too deeply") from error


def _paths(value: object, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, _Object):
        yield from ((*path, name) for name in value.twice)
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))
