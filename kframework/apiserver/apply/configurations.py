"""What is applied, as it comes: in YAML, of which JSON is a part."""

from __future__ import annotations

import msgspec
import yaml

from kframework.apiserver.calls import Call
from kframework.cluster import api_errors
from kframework.objects.yaml_documents import documents

#: How many values a configuration may hold: a few aliases of YAML stand for any number of them.
MOST_VALUES = 1_000_000


def in_json(call: Call) -> Call:
    """Return the call with its body in JSON; ClusterError 400 for one that cannot be read."""
    body = call.request.body
    if body.lstrip()[:1] == b"{":
        try:
            msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass  # it may still be YAML
        else:
            return call
    return call._replace(request=msgspec.structs.replace(call.request, body=_from_yaml(body)))


def _from_yaml(body: bytes) -> bytes:
    try:
        found = [each for each in documents(body.decode()) if each is not None]
        if len(found) != 1:
            raise ValueError(f"it holds {len(found)} documents instead of one")
        _check_size(found[0])
        return msgspec.json.encode(found[0])
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise api_errors.bad_request(f"error decoding YAML: {error}") from error


def _check_size(document: object) -> None:
    """Raise ValueError if a document is too large to be written out, or holds itself."""
    waiting, count = [document], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise ValueError(f"it holds more than {MOST_VALUES} values")
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
