"""Engines whose plugins get read-only objects, for development and tests."""

from __future__ import annotations

from typing import Any

import msgspec

from kframework.core.pod_engine import PodEngine
from kframework.objects.read_only import read_only
from kframework.scheduler.scheduler import EngineFactory
from kframework.state.inbox import Deleted, Inbox, Message, Upserted


class ReadOnlyInbox(Inbox):
    """An inbox that makes the objects of the cluster read-only as they arrive."""

    def offer(self, message: Message) -> None:
        if isinstance(message, Upserted | Deleted):
            message = msgspec.structs.replace(message, obj=read_only(message.obj))
        super().offer(message)


def with_read_only_objects(make: EngineFactory[PodEngine]) -> EngineFactory[PodEngine]:
    def make_read_only(*parts: Any) -> PodEngine:
        engine = make(*parts)
        engine.inbox = ReadOnlyInbox()
        return engine

    return make_read_only
