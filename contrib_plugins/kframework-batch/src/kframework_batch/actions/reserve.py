"""reserve: keep nodes free for the job that was elected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.action import Action
from kframework_batch.session import Session


class Reserve(Action):
    """Lets the plugins keep nodes free (`reserved_nodes`), in this session, before others are placed on them."""

    name: ClassVar[str] = "reserve"

    def run(self, session: Session) -> Iterator[None]:
        session.plugins.reserved_nodes()
        yield
