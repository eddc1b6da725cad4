"""What plugins say in more words of the nodes that they reject: of those where least stands in the pod's way."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import PASS
from kframework.explain.explanation import Details
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.optional_hooks import OptionalHooks
from kframework.explain.remedies.suggestions import Suggestions

#: So many nodes are told of for each rejection of a plugin, so many rejections of each.
_NODES, _REJECTIONS = 3, 3


def details(evaluation: FullEvaluation) -> Generator[None, None, tuple[Details, ...]]:
    """Ask the plugins that have a hook `explain`; yields wherever it may pause."""
    hooks, found = OptionalHooks(evaluation.profile), list[Details]()
    for plugin, said in evaluation.said.items():
        explain = hooks.of(plugin, "explain")
        if explain is None:
            continue
        nearest = yield from _nearest(evaluation, plugin)
        for place in nearest:
            yield
            name = evaluation.names[place]
            node = evaluation.nodes.named(name)
            if node is None:
                continue  # it has left meanwhile
            status = evaluation.status(int(said[evaluation.rows[place]]))
            asked = partial(explain, evaluation.state, evaluation.pod, node, status)
            lines: list[str] = hooks.safely(plugin, "explain", partial(_lines, asked), [])
            found += [Details(plugin, name, tuple(lines))] if lines else []
    return tuple(found)


def _lines(asked: Callable[[], object]) -> list[str]:
    return list(map(str, cast("list[object]", asked())))


def _nearest(evaluation: FullEvaluation, plugin: str) -> Generator[None, None, list[int]]:
    """List the places of a few nodes for each of a plugin's rejections, those first where the fewest changes help."""
    said = evaluation.said[plugin][evaluation.rows]
    places: NDArray[np.int64] = np.flatnonzero(said != PASS)
    if not len(places):
        return []
    efforts = yield from Suggestions(evaluation.profile).efforts(evaluation, plugin, evaluation.rows[places])
    places = places[np.argsort(efforts, kind="stable")]
    _, firsts = np.unique(said[places], return_index=True)
    alike = (places[said[places] == said[places[first]]] for first in sorted(firsts.tolist())[:_REJECTIONS])
    return [place for each in alike for place in each[:_NODES].tolist()]
