"""Engines whose plugins get read-only objects, for development and tests."""

from __future__ import annotations

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.host import Host
from kframework.core.plugin_handle import ProfilesFactory
from kframework.core.pod_engine import PodEngine
from kframework.objects.read_only import read_only
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.scheduler import EngineFactory
from kframework.state.inbox import Deleted, Inbox, Message, Upserted


class ReadOnlyInbox(Inbox):
    """An inbox that makes the objects of the cluster read-only as they arrive."""

    def offer(self, message: Message) -> None:
        if isinstance(message, Upserted | Deleted):
            message = msgspec.structs.replace(message, obj=read_only(message.obj))
        super().offer(message)


def with_read_only_objects(make: EngineFactory[PodEngine]) -> EngineFactory[PodEngine]:
    def make_read_only(
        configuration: Configuration, clock: Clock, host: Host, extenders: Extenders, profiles: ProfilesFactory
    ) -> PodEngine:
        engine = make(configuration, clock, host, extenders, profiles)
        engine.inbox = ReadOnlyInbox()
        return engine

    return make_read_only
