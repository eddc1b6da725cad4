"""The output of a simulation: a progress bar, then the placement of pods on stdout, and a summary on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kframework.cli.options import Output
from kframework.cli.printing import print_answer, print_names, print_table, progress_bar
from kframework.observe.text_table import NONE, format_count
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.core.cycle.records import Decision
    from kframework.simulation.records import PodOutcome, Progress, SimulationResult

#: The number of names listed in a line; the others are counted.
_MAX_NAMES = 5

_HEADERS = ("NAMESPACE", "POD", "NODE", "STATUS", "ATTEMPTS", "MESSAGE")
_WIDE_HEADERS = (*_HEADERS[:-1], "SCORE", "FEASIBLE", "EVALUATED", "PROFILE", "REJECTED BY", "MESSAGE")


@contextmanager
def progress(*, alone: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar while the simulation runs, if stderr is a terminal that it has for itself."""
    with progress_bar("Pods bound", shown=alone) as update:
        yield lambda progress: update(progress.bound, progress.pods)


def report_notices(simulation: SimulationResult, scheduler_names: Collection[str]) -> None:
    """Report oddities of the configuration, preempted pods, and pods for other scheduler names."""
    for notice in simulation.notices:
        notify_user("notice", notice)
    preempted = [f"{victim} (for {each.pod})" for each in simulation.preemptions for victim in each.victims]
    if preempted:
        notify_user("notice", f"preempted: {_format_names(preempted)}")
    pending = [outcome for outcome in simulation.outcomes if outcome.node is None]
    for name in sorted({outcome.profile for outcome in pending} - set(scheduler_names)):
        pods = _format_names([outcome.pod for outcome in pending if outcome.profile == name])
        notify_user("notice", f"no profile has the schedulerName {name!r}; not scheduled: {pods}")


def report_blocked(blocked: Mapping[str, str]) -> None:
    """Report the pods that were not evicted, by what forbids it."""
    pods: dict[str, list[str]] = {}
    for pod, obstacle in blocked.items():
        pods.setdefault(obstacle, []).append(pod)
    for obstacle, names in pods.items():
        notify_user("warning", f"not evicted, as {obstacle} forbids it: {_format_names(names)}")


def print_outcomes(simulation: SimulationResult, output: Output | None) -> None:
    """Print the node of each pod, or why it waits."""
    outcomes = simulation.outcomes
    match output:
        case Output.JSON | Output.YAML:
            from kframework.cli.answers import PodOutcomeList

            print_answer(output, PodOutcomeList(items=outcomes))
        case Output.NAME:
            print_names("pod", (outcome.pod.partition("/")[2] for outcome in outcomes))
        case Output.WIDE:
            last = {decision.pod: decision for decision in simulation.decisions}
            print_table(_WIDE_HEADERS, [_wide_row(outcome, last.get(outcome.pod)) for outcome in outcomes])
        case None:
            print_placements(outcomes)


def print_placements(outcomes: Iterable[PodOutcome]) -> None:
    """Print a table of the node of each pod, or why it waits."""
    print_table(_HEADERS, [_row(outcome) for outcome in outcomes])


def print_moved(before: Mapping[str, PodOutcome], now: Mapping[str, PodOutcome]) -> None:
    """Print the pods that went elsewhere than before, or wait for another reason; both by `namespace/name`."""
    moved = [pod for pod in dict.fromkeys((*now, *before)) if _placement(before.get(pod)) != _placement(now.get(pod))]
    if not moved:
        notify_user("notice", "nothing moved")
        return
    print_table(
        ("NAMESPACE", "POD", "BEFORE", "NOW", "MESSAGE"),
        [
            (
                *pod.split("/"),
                _node(before[pod]) if pod in before else "<new>",
                _node(now[pod]) if pod in now else "<gone>",
                now[pod].message if pod in now else "",
            )
            for pod in moved
        ],
    )


def summarise(simulation: SimulationResult) -> None:
    """Report the number of bound pods and the effort, as the last line."""
    from kframework.config.duration import Duration

    pods = len(simulation.outcomes)
    bound = sum(outcome.node is not None for outcome in simulation.outcomes)
    stuck: dict[str, list[str]] = {}
    for pod, why in simulation.stuck.items():
        stuck.setdefault(why, []).append(pod)
    for why, names in stuck.items():
        notify_user("warning", f"gave up on {_format_names(names)}: {why}")
    retried = [pod for pod in simulation.retrying if pod not in simulation.stuck]
    if retried:
        notify_user("warning", f"gave up on pods that were retried without success: {_format_names(retried)}")
    sys.stdout.flush()  # so that the summary is last if both streams have one destination
    cycles, time = len(simulation.decisions), Duration(round(simulation.seconds, 3))
    account = f"{format_count(cycles, 'scheduling cycle')} in {time} of virtual time"
    sys.stderr.write(f"{bound} of {format_count(pods, 'pod')} bound, {pods - bound} pending; {account}\n")


def _placement(outcome: PodOutcome | None) -> tuple[str | None, str] | None:
    return None if outcome is None else (outcome.node, outcome.message)


def _node(outcome: PodOutcome) -> str:
    return outcome.node or "<pending>"


def _row(outcome: PodOutcome) -> tuple[str, ...]:
    namespace, _, name = outcome.pod.partition("/")
    return namespace, name, outcome.node or NONE, outcome.phase, str(outcome.attempts), outcome.message


def _wide_row(outcome: PodOutcome, decision: Decision | None) -> tuple[str, ...]:
    """Add columns of the last attempt; a score only if there was a choice."""
    *row, message = _row(outcome)
    figures = (NONE, NONE, NONE)
    if decision is not None:
        score = str(decision.score) if decision.best_nodes else NONE
        figures = (score, str(decision.feasible), str(decision.evaluated))
    return (*row, *figures, outcome.profile, ",".join(outcome.rejected_by) or NONE, message)


def _format_names(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
