"""Which media types clients accept, as they prefer them (RFC 9110, 12.5.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from kframework.client.transport import JSON
from kframework.fake_api.wire.yaml_bodies import YAML

#: What is written, by what clients may call it.
_ENCODINGS = {JSON: JSON, "application/*": JSON, "*/*": JSON, YAML: YAML}

#: The group of the forms that all kinds have.
_META = "meta.k8s.io"


class MediaType(NamedTuple):
    """What is written how: objects as they are, or in a form such as `Table`."""

    encoding: str
    form: str = ""


@lru_cache(maxsize=256)
def accepted(accept: str) -> tuple[MediaType, ...]:
    """List what a client accepts of what there is, the preferred first; whoever says nothing accepts JSON."""
    weighed = [_read(each) for each in accept.split(",")] if accept else [(1.0, MediaType(JSON))]
    weighed.sort(key=lambda each: -each[0])
    return tuple(media_type for weight, media_type in weighed if weight > 0 and media_type is not None)


def encoding(accept: str) -> str:
    """Return in which media type answers are to be written: JSON where a client accepts nothing that there is."""
    return next((each.encoding for each in accepted(accept)), JSON)


def _read(text: str) -> tuple[float, MediaType | None]:
    name, *parameters = (part.strip() for part in text.split(";"))
    said = dict(parameter.partition("=")[::2] for parameter in parameters)
    form = said.get("as", "")
    if name.lower() not in _ENCODINGS or (form and said.get("g") != _META):
        return 0.0, None
    return _weight(said.get("q", "1")), MediaType(_ENCODINGS[name.lower()], form)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
