"""Where a task is to go: the nodes that let it in and have room for it, and the best of them.

What plugins say of a node is remembered in columns, per signature of the plugins asked, and asked again only for the
rows that have changed; so is where there is room. The best node is then the maximum of a column: 13 us at 5,000 nodes,
beside what it takes to ask about the one row that the task before has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from random import Random
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework import Code, Status
from kframework.engine import fit_error
from kframework_batch.combination import Combination
from kframework_batch.hookspecs import Rows
from kframework_batch.node_questions import NodeQuestions
from kframework_batch.room import NodeRoom
from kframework_batch.task import TaskInfo
from kframework_batch.tiers import Call

if TYPE_CHECKING:
    from kframework_batch.session import Session

_NOT_HERE = float("-inf")

#: The log does not reach back so far; it is asked all the same, since it forgets only what nobody has asked for.
_NEVER = -1

#: Up to so many rows are asked one by one, more as columns.
_FEW = 16

#: So many outlooks are remembered.
_MOST = 512


class Choice(msgspec.Struct, frozen=True):
    """Where a task is to go.

    `idle` says that there is room now; else there will be, once those who are to go have gone. `ties` is the number of
    nodes that were as good, `feasible` of those with room now (or to come).
    """

    row: int
    node: str
    idle: bool
    score: float
    ties: int
    feasible: int


class Outlook:
    """What the plugins say of every node to the tasks of one signature, and where these fit.

    `idle` holds the total of a node that lets them in and has room now, else minus infinity; `future` the same for
    nodes that will have room.
    """

    def __init__(self, capacity: int) -> None:
        self.idle: NDArray[np.float64] = np.full(capacity, _NOT_HERE)
        self.future: NDArray[np.float64] = np.full(capacity, _NOT_HERE)
        #: How far the log of changed rows had been read.
        self.position: int = _NEVER


class Outlooks:
    """The outlooks of one configuration, least recently used first; they outlive sessions.

    All are forgotten when the set of nodes changes.
    """

    def __init__(self) -> None:
        self._outlooks: OrderedDict[Hashable, Outlook] = OrderedDict()
        self._generation = -1

    def get(self, signature: Hashable, generation: int, capacity: int) -> Outlook:
        """Return the outlook of a signature, a new one if there is none."""
        if generation != self._generation:
            self._outlooks.clear()
            self._generation = generation
        outlook = self._outlooks.get(signature)
        if outlook is None:
            outlook = self._outlooks[signature] = Outlook(capacity)
            if len(self._outlooks) > _MOST:
                self._outlooks.popitem(last=False)
        else:
            self._outlooks.move_to_end(signature)
        return outlook

    def __len__(self) -> int:
        return len(self._outlooks)


class Placement:
    """Finds nodes for the tasks of one session."""

    def __init__(self, session: Session, room: NodeRoom, outlooks: Outlooks, random: Random) -> None:
        self._session = session
        self._nodes = session.nodes
        self._plugins: Combination = session.plugins
        self._room = room
        self._outlooks = outlooks
        self._random = random
        tiers = session.plugins.tiers
        self.questions: NodeQuestions = NodeQuestions(session, tiers)
        self._best_nodes = cast("tuple[Call[int | None], ...]", tiers.flat("best_node"))
        #: What was chosen last for each task, by uid.
        self.chosen: dict[str, Choice] = {}

    # -- the best node -----------------------------------------------------------------------------------------------

    def choose(self, task: TaskInfo) -> Choice | str:
        """Return the best node with room for a task, now if there is one, else to come; or why there is none."""
        rejection = self._plugins.pre_predicate(task)
        if rejection is not None:
            return fit_error(len(self._nodes), dict.fromkeys(rejection.reasons, len(self._nodes)))
        signature = self._sign(task)
        outlook = self._looked_at(task) if signature is None else self._caught_up(task, signature)
        choice = self._best(task, outlook.idle, idle=True) or self._best(task, outlook.future, idle=False)
        if choice is None:
            return self._why_not(task)
        self.chosen[task.uid] = choice
        return choice

    def _sign(self, task: TaskInfo) -> Hashable | None:
        """Return what the answers about a task depend on beside the nodes; None: it must be asked about every time."""
        signs = tuple(plugin.sign(self._session, task) for plugin in self.questions.plugins)
        return None if None in signs else (task.pod.template, signs)

    def _best(self, task: TaskInfo, totals: NDArray[np.float64], *, idle: bool) -> Choice | None:
        """Return one of the best, drawn; None where no node passes."""
        best = float(totals[totals.argmax()]) if len(totals) else _NOT_HERE
        if best == _NOT_HERE:
            return None
        ties = (totals == best).nonzero()[0]
        row = int(ties[self._random.randrange(len(ties)) if len(ties) > 1 else 0])
        if self._best_nodes:
            row = self._chosen_by_plugins(task, totals, row)
        feasible = int(np.count_nonzero(totals > _NOT_HERE))
        return Choice(row, self._nodes[row].name, idle, best, len(ties), feasible)

    def _chosen_by_plugins(self, task: TaskInfo, totals: NDArray[np.float64], row: int) -> int:
        """Return the row that the first plugin chooses that chooses at all, else this one."""
        candidates = np.flatnonzero(totals > _NOT_HERE)
        answers = (call(self._session, task, candidates, totals[candidates]) for call in self._best_nodes)
        return next((answer for answer in answers if answer is not None), row)

    # -- what is remembered --------------------------------------------------------------------------------------------

    def _caught_up(self, task: TaskInfo, signature: Hashable) -> Outlook:
        """Return the outlook of tasks like this one, with the rows asked again that have changed."""
        nodes = self._nodes
        outlook = self._outlooks.get(signature, nodes.generation, nodes.capacity)
        position, outlook.position = outlook.position, nodes.pod_log.end
        rows = nodes.pod_log.since(position)
        if rows is None:
            self._fill(outlook, task, nodes.order)
        elif len(distinct := dict.fromkeys(rows)) <= _FEW:
            for row in distinct:
                self._fill_row(outlook, task, row)
        else:
            self._fill(outlook, task, np.fromiter(distinct, dtype=np.int64, count=len(distinct)))
        return outlook

    def _fill_row(self, outlook: Outlook, task: TaskInfo, row: int) -> None:
        node = self._nodes[row]
        outlook.idle[row] = outlook.future[row] = _NOT_HERE
        if self._room.fits_future(task, row) and self.questions.rejection(task, node) is None:
            outlook.future[row] = self.questions.total(task, node)
            if self._room.fits_idle(task, row):
                outlook.idle[row] = outlook.future[row]

    def _fill(self, outlook: Outlook, task: TaskInfo, rows: Rows) -> None:
        outlook.idle[rows] = outlook.future[rows] = _NOT_HERE
        candidates = self._candidates(task, rows)
        outlook.future[candidates] = self.questions.totals(task, candidates)
        idle = candidates[self._room.fitting_idle(task, candidates)]
        outlook.idle[idle] = outlook.future[idle]

    # -- what is asked afresh ------------------------------------------------------------------------------------------

    def _looked_at(self, task: TaskInfo) -> Outlook:
        """Return an outlook for this task alone: those with room now are scored, or if there are none, the others."""
        outlook = Outlook(self._nodes.capacity)
        candidates = self._candidates(task, self._nodes.order)
        idle = candidates[self._room.fitting_idle(task, candidates)]
        if len(idle):
            outlook.idle[idle] = self.questions.totals(task, idle)
        else:
            outlook.future[candidates] = self.questions.totals(task, candidates)
        return outlook

    def _candidates(self, task: TaskInfo, rows: Rows) -> Rows:
        """Return the nodes that let a task in and will have room for it."""
        rows = rows[self._room.fitting_future(task, rows)]
        return rows[self.questions.passing(task, rows)] if len(rows) else rows

    # -- for those who push others out ---------------------------------------------------------------------------------

    def ranked(self, task: TaskInfo) -> list[int]:
        """Return the rows on which a task might be placed if others went, the best first.

        These are the nodes that let it in, or whose rejection may go with the pods on them (Unschedulable).
        """
        if self._plugins.pre_predicate(task) is not None:
            return []
        rows = self._nodes.order
        hopeless = np.zeros(len(rows), dtype=np.bool_)
        for status, where in self.questions.rejections(task, rows):
            if status.code != Code.UNSCHEDULABLE:
                hopeless |= where
        rows = rows[~hopeless]
        scores = self.questions.totals(task, rows)
        return [int(row) for row in rows[np.argsort(-scores, kind="stable")]]

    def rejection(self, task: TaskInfo, row: int) -> Status | None:
        """Return what the predicates have against a node as it stands now; resources are not among it."""
        return self.questions.rejection(task, self._nodes[row])

    # -- why not -------------------------------------------------------------------------------------------------------

    def _why_not(self, task: TaskInfo) -> str:
        """Say why no node will do: on how many nodes each reason is among the first that stand against the task."""
        rows = self._nodes.order
        reasons: dict[str, int] = {}
        short = np.zeros(len(rows), dtype=np.bool_)
        for resource, _, enough in self._room.shortages(task, rows):
            reason = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            if not enough.all():
                reasons[reason] = int(np.count_nonzero(~enough))
            short |= ~enough
        for status, where in self.questions.rejections(task, rows):
            count = int(np.count_nonzero(where & ~short))
            for reason in status.reasons if count else ():
                reasons[reason] = reasons.get(reason, 0) + count
        return fit_error(len(rows), reasons)

    def __repr__(self) -> str:
        return f"<Placement on {len(self._nodes)} nodes, {len(self._outlooks)} outlooks>"
