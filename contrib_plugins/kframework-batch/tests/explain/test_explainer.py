"""Explanations as they are asked for by a name: between two sessions only, and for what is known."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import Response
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explainer import explain_by_name, explain_routes
from kframework_batch.explain.explanation import JobExplanation
from kframework_batch.testing import Stage, make_gang, make_node

from kframework import ExplainError
from kframework.engine import EngineExplanation, Scheduler, Upserted, run_to_end
from kframework.explain.explanation import decode_explanation

PLAIN = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]'


def staged() -> Stage:
    return Stage(PLAIN, nodes=[make_node("n1", cpu=2)], gangs=[make_gang("train", 4)]).session()


def test_explanation_has_text_and_data() -> None:
    stage = staged()
    said = run_to_end(explain_by_name(stage.engine, stage.accounts, "default", "train", ["one of two"]))
    assert said.engine == "batch"
    assert "2 of the 4 tasks that it needs had a place" in said.text
    assert said.text.endswith("note: one of two\n")
    assert "POD" in said.wide and "POD" not in said.text
    data = msgspec.json.decode(said.explanation, type=JobExplanation)
    assert (data.job, data.notes) == ("default/train", ("one of two",))
    assert decode_explanation(msgspec.json.encode(said)) == EngineExplanation(
        said.engine, said.text, said.wide, said.explanation
    )


def test_unknown_name_is_an_explain_error() -> None:
    stage = staged()
    with pytest.raises(ExplainError, match="no job and no pod default/nobody"):
        run_to_end(explain_by_name(stage.engine, stage.accounts, "default", "nobody"))


async def test_explanation_waits_for_the_open_session() -> None:
    stage = staged()
    stage.time += 1.0
    stage.engine.offer(Upserted(make_node("n2", cpu=1)))
    assert stage.engine.step()
    asked = asyncio.ensure_future(explained(stage))
    while stage.engine.step():
        await asyncio.sleep(0)
        assert not asked.done() or stage.engine.is_between_sessions
    assert "3 of the 4 tasks" in json.loads(await asked)["text"]


async def explained(stage: Stage) -> str:
    """Ask the route of a scheduler that has this engine."""
    scheduler = cast("Scheduler[BatchEngine]", SimpleNamespace(engine=stage.engine, standing_by=False))
    (route,) = explain_routes(scheduler, lambda: stage.accounts[::-1])
    answered = await route.handler(make_mocked_request("GET", "/explain?job=default/train"))
    assert isinstance(answered, Response)
    return answered.text or ""
