"""Conversion of YAML bodies to JSON, and of JSON answers to YAML."""

from __future__ import annotations

import msgspec
import yaml

from kframework.client import api_errors
from kframework.client.transport import JSON, Response
from kframework.objects.yaml_documents import documents
from kframework.objects.yaml_loader import YamlDumper

YAML = "application/yaml"

#: Longer answers, in bytes, stay JSON, which is valid YAML: libyaml blocks the loop for 30 ms per 100 KB.
MAX_YAML_BYTES = 128 * 1024


def to_json(body: bytes) -> bytes:
    """Convert a body to JSON; raises ClusterError 400."""
    if body.lstrip()[:1] == b"{":
        try:
            msgspec.json.decode(body)
        except (ValueError, RecursionError):
            pass  # it may still be YAML
        else:
            return body
    try:
        bodies = [each for each in documents(body.decode()) if each is not None]
        if len(bodies) != 1:
            raise ValueError(f"expected one document, got {len(bodies)}")
        return msgspec.json.encode(bodies[0])
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise api_errors.bad_request(f"error decoding YAML: {error}") from error


def to_yaml(body: bytes) -> bytes:
    if len(body) > MAX_YAML_BYTES:
        return body + b"\n"
    text: str = yaml.dump(msgspec.json.decode(body), Dumper=YamlDumper, allow_unicode=True, width=2**31 - 1)
    return text.encode()


def to_yaml_response(response: Response) -> Response:
    if response.headers.get("content-type") != JSON:
        return response
    headers = {**response.headers, "content-type": YAML}
    return msgspec.structs.replace(response, body=to_yaml(response.body), headers=headers)
