"""The answers of commands and endpoints for programs: documents that say their kind and version."""

from __future__ import annotations

from typing import Literal

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """A document that a command prints as JSON; its kind is the name of its class.

    Fields may be added within a version; none is removed, and none changes its meaning.
    """

    api_version: Literal["kframework.dev/v1"] = msgspec.field(default="kframework.dev/v1", name="apiVersion")
