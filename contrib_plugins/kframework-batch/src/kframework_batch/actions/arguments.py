"""The argument that the actions have in common which look for nodes."""

from __future__ import annotations

from pydantic import Field

from kframework_batch.plugin import BatchArguments


class SearchArguments(BatchArguments):
    """`predicateErrorCacheEnable` is accepted, since remembered answers need no switch."""

    predicate_error_cache: bool = Field(True, alias="predicateErrorCacheEnable")
