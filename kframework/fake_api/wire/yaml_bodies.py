"""Bodies in YAML, of which JSON is a part: read as JSON, and written from it."""

from __future__ import annotations

import msgspec
import yaml

from kframework.client import api_errors
from kframework.client.transport import JSON, Response
from kframework.objects.yaml_documents import documents

YAML = "application/yaml"

#: How many values a body may hold: a few aliases stand for any number of them.
MOST_VALUES = 1_000_000

#: What is longer, in bytes, is written as JSON, which is YAML too: 100 KB take libyaml 30 ms, for which the loop waits.
LONGEST = 128 * 1024

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def json_of(body: bytes) -> bytes:
    """Return what a body says, in JSON; ClusterError 400 for one that cannot be read."""
    if body.lstrip()[:1] == b"{":
        try:
            msgspec.json.decode(body)
        except (ValueError, RecursionError):
            pass  # it may still be YAML
        else:
            return body
    try:
        found = [each for each in documents(body.decode()) if each is not None]
        if len(found) != 1:
            raise ValueError(f"it holds {len(found)} documents instead of one")
        waiting, count = [*found], 0  # a document must not be too large to be written out, nor hold itself
        while waiting:
            value = waiting.pop()
            count += 1
            if count > MOST_VALUES:
                raise ValueError(f"it holds more than {MOST_VALUES} values")
            waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return msgspec.json.encode(found[0])
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise api_errors.bad_request(f"error decoding YAML: {error}") from error


def yaml_of(body: bytes) -> bytes:
    """Return what a body in JSON says, in YAML, its fields in the order of their names."""
    if len(body) > LONGEST:
        return body + b"\n"
    text: str = yaml.dump(msgspec.json.decode(body), Dumper=_Dumper, allow_unicode=True, width=2**31 - 1)
    return text.encode()


def in_yaml(response: Response) -> Response:
    """Write an answer in YAML that is a JSON document."""
    if response.headers.get("content-type") != JSON:
        return response
    headers = {**response.headers, "content-type": YAML}
    return msgspec.structs.replace(response, body=yaml_of(response.body), headers=headers)
