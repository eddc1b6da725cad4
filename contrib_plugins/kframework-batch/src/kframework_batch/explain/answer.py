"""Explanations as they are asked for: by a name, in words and as data, at a scheduler's port or beside a simulation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kframework import Unexplainable
from kframework.engine import STANDS_BY, EngineExplanation, Scheduler, at_rest, explain_route, finished_giving_way
from kframework_batch.account import SessionAccount
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.account import explaining
from kframework_batch.explain.ended import explaining_ended, find_ended
from kframework_batch.explain.finding import find
from kframework_batch.explain.text import text_of

if TYPE_CHECKING:
    from aiohttp import web

#: The accounts of the last sessions, the newest first.
Sessions = Callable[[], Sequence[SessionAccount]]


def answer(
    engine: BatchEngine, sessions: Sequence[SessionAccount], namespace: str, name: str, notes: Sequence[str] = ()
) -> Generator[None, None, EngineExplanation]:
    """Explain the job or pod of this name; yields where others may have their turn.

    One whose pod group is gone is explained by what the sessions say of it. Unexplainable is raised where there is none
    of this name, and was none. No session may be open when it is driven on.
    """
    found = find(engine, namespace, name)
    ended = None
    if found is None or not found[0].known:
        ended = yield from find_ended(sessions, namespace, name)
    if ended is not None:
        explanation = yield from explaining_ended(engine, sessions, ended)
    elif found is not None:
        explanation = yield from explaining(engine, sessions, *found)
    else:
        raise Unexplainable(f"there is no job and no pod {namespace}/{name} that this scheduler has to do with")
    explanation = msgspec.structs.replace(explanation, notes=(*explanation.notes, *notes))
    data = msgspec.Raw(msgspec.json.encode(explanation))
    return EngineExplanation("batch", text_of(explanation), text_of(explanation, wide=True), data)


def explain_routes(scheduler: Scheduler[BatchEngine], sessions: Sessions) -> list[web.RouteDef]:
    """Return the route that explains a job or a pod."""
    cluster = scheduler.engine.cluster

    async def explained(namespace: str, name: str) -> EngineExplanation:
        notes = [STANDS_BY] if scheduler.standing_by else []
        await at_rest(cluster)  # so that the session that is open now is among them
        return await finished_giving_way(cluster, answer(scheduler.engine, sessions(), namespace, name, notes))

    return [explain_route(explained)]
