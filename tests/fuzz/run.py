"""Sends made-up requests to an API server in this process, and says which of them found a fault in it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kframework.client.transport import Request, Response
from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from tests.fuzz.requests import Requests, valid_request
from tests.fuzz.valid import VALID

#: After so many requests a new cluster is begun with.
LIFE = 500
#: What a real API server answers with 500, too.
SPARED = (b"resourceVersion should not be set on objects to be created", b"failed to create typed patch object")
#: Kinds that stand there twice are made once.
_OTHER_VERSIONS = (("HorizontalPodAutoscaler", "v1"), ("ResourceClaim", "v1beta1"), ("ResourceClaim", "v1beta2"))


class Fault(NamedTuple):
    """What a request came to that must not be; it is made again by its seed and its number."""

    seed: int
    number: int
    request: Request
    why: str

    def __str__(self) -> str:
        asked = self.request
        head = f"seed {self.seed}, request {self.number}: {asked.method} {asked.path} {asked.query}"
        return f"{head}\n{asked.content_type} {asked.body[:2000]!r}\n{self.why}"


class Report(NamedTuple):
    """How many requests were answered with which status, and the faults that were found."""

    statuses: Counter[int]
    faults: list[Fault]


def send(seed: int, count: int, report_progress: Callable[[int], None] = lambda done: None) -> Report:
    """Send `count` requests, the same for the same seed."""
    report = Report(Counter(), [])
    logging.disable(logging.WARNING)
    try:
        for life in range(-(-count // LIFE)):
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                runner.run(_live(seed + life, min(LIFE, count - life * LIFE), report))
            report_progress(life * LIFE)
    finally:
        logging.disable(logging.NOTSET)
    return report


async def _live(seed: int, count: int, report: Report) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    server = ApiServer(MemoryCluster(clock), clock)
    catalogue = server._store.catalogue
    # The definition of widgets comes first: then there are widgets.
    for kind in sorted(VALID, key=lambda kind: kind != "CustomResourceDefinition"):
        for resource in catalogue.resources():
            if resource.kind.name == kind and (resource.kind.name, resource.version) not in _OTHER_VERSIONS:
                made = await server.answer(valid_request(resource))
                assert made.status == 201, made
    requests = Requests(seed, catalogue.resources())
    for number in range(count):
        request = requests.next()
        try:
            answer = server.begin(request)
        except Exception:
            report.faults.append(Fault(seed, number, request, traceback.format_exc(limit=-6)))
            continue
        status = answer.status if isinstance(answer, Response) else 200
        report.statuses[status] += 1
        if (
            isinstance(answer, Response)
            and status >= 500
            and status != 501
            and not any(text in answer.body for text in SPARED)
        ):
            report.faults.append(Fault(seed, number, request, answer.body.decode(errors="replace")))
