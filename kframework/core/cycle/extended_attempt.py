"""A scheduling cycle in which extenders have a say: an Attempt that awaits them where kube-scheduler asks them."""

from __future__ import annotations

import msgspec

from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.extender import ExtenderError
from kframework.core.cycle.outcome import FitError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.runtime.points import PostFilterAnswer, PostFilterRound
from kframework.errors import PluginError
from kframework.framework.answers import Preempt
from kframework.framework.status import Code, Status

_NONE_LEFT = "preemption: no candidate node for preemption"


class ExtendedAttempt(Attempt):
    """One scheduling cycle of one pod, with extenders: `run_extended` in place of `run`."""

    async def run_extended(self) -> None:
        """Take the pod from pop to its Decision."""
        if self.plugin_timer is None:
            await self._try_with_extenders()
        else:
            with self.plugin_timer.running():
                await self._try_with_extenders()

    async def _try_with_extenders(self) -> None:
        engine = self.engine
        self.queued.unschedulable_plugins = self.queued.pending_plugins = frozenset()
        try:
            search = engine.extended_search(self.profile, self.queued, self.timer)
            self.timer.take("sign")
            outcome = await engine.find_extended(search)
        except PluginError as error:
            self._blame(error)
            return
        engine.undo_leaks(self.profile)
        if isinstance(outcome, ScheduleResult):
            self._place(search, outcome)
        elif isinstance(outcome, FitError):
            answer = await self._ask_post_filter(search, outcome) if self.profile.post_filter else None
            self._give_up(outcome, answer)
        else:
            self._fail(outcome.status, "")

    async def _ask_post_filter(self, search: Search, unfit: FitError) -> PostFilterAnswer:
        """Look for a way out that the extenders agree to; where they do not, the plugins behind are asked."""
        plugins = PostFilterRound(self.profile)
        while True:
            answer = plugins.run(search.state, self.pod, unfit.diagnosis)
            self.engine.undo_leaks(self.profile)
            self.timer.take("post_filter", answer.status)
            if not isinstance(answer.result, Preempt) or not answer.result.candidates:
                return answer
            narrowed = await self._narrow(answer.status, answer.result)
            self.timer.take("extender_preempt", narrowed.status)
            # Only a success has kept the plugins behind from being asked.
            if answer.status.code != Code.SUCCESS or narrowed.status.code != Code.UNSCHEDULABLE:
                return narrowed
            plugins.refused(narrowed.status)

    async def _narrow(self, status: Status, found: Preempt) -> PostFilterAnswer:
        """Let the extenders take away candidates."""
        engine = self.engine
        try:
            candidates = await engine.extenders.preempt(self.pod, found.candidates, engine.cluster.nodes)
        except ExtenderError as error:
            return PostFilterAnswer(Status(Code.ERROR, (f"preemption: {error}",), status.plugin))
        if not candidates:
            return PostFilterAnswer(Status(Code.UNSCHEDULABLE, (*status.reasons, _NONE_LEFT), status.plugin))
        return PostFilterAnswer(status, msgspec.structs.replace(found, candidates=tuple(candidates)))
