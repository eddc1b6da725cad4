"""`kframework replay`: decide again what was recorded, by the same configuration or by another one."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from msgspec.structs import replace

from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import Logging, Verbosity, refuse_overwriting
from kframework.cli.printing import print_json, print_table
from kframework.cli.second_thoughts import Form, reconsider_by_engine, say_cut_off, say_differences
from kframework.observe.text_table import NONE
from kframework.simulation.inputs import configured
from kframework.verbosity import say

if TYPE_CHECKING:
    from kframework.core.cycle.decision import Decision
    from kframework.framework.plugin import Plugin
    from kframework.observe.recording.reader import Recorded
    from kframework.observe.recording.reconsider import Disagreement, Reconsidered
    from kframework.observe.recording.replay import Difference

_HEADERS = ("ATTEMPT", "POD", "RECORDED", "NOW", "DIFFERENCE", "MESSAGE")
_WIDE_HEADERS = (
    "ATTEMPT", "TIME", "POD", "PROFILE", "RECORDED", "SCORE", "FEASIBLE", "NOW", "SCORE", "FEASIBLE", "DIFFERENCE",
    "MESSAGE",
)  # fmt: skip

#: What of a decision JSON shows.
_DECIDED = (
    "result",
    "node",
    "score",
    "ties",
    "top",
    "evaluated",
    "feasible",
    "reasons",
    "nominated",
    "victims",
    "message",
)


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What run or simulate wrote with --record.")],
    plugin: PluginOption,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Configuration to decide by; the recorded one without it."),
    ] = None,
    output: Annotated[
        Form | None, typer.Option("-o", "--output", help="Print the differences in a wider table, or as JSON.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write how things stood in the end here, as a page of HTML.")
    ] = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Decide again what was recorded.

    By the recorded configuration the same must come of it, or the exit code is 1. By another one every attempt is
    decided again on the state as it was, and what was recorded is what then happens; the differences are printed.
    """
    from kframework.observe.recording.reader import Recorded

    refuse_overwriting([file] if config is None else [file, config], report=report)
    recorded = Recorded(Path(file))
    if recorded.header.engine:
        _refuse_beside(recorded.header.engine, report=report, plugin=plugin)
    _say_maker(recorded)
    if recorded.header.engine and config is not None:
        reconsider_by_engine(recorded, config, output)
        return
    plugins = named_plugins(plugin)
    if config is None and recorded.header.part == 1:
        result = _checked(Path(file), plugins)
    else:
        result = Again(_reconsidered(Path(file), config, plugins))
    _print(result, output)
    _summarise(result, config)
    if report is not None:
        _report(Path(file), plugins, report)
    if config is None and result.differences:
        raise typer.Exit(1)


class Again(NamedTuple):
    """What came of it; `accounts` counts those of the engine's own, by what one is called; one may be `apart`."""

    decisions: Reconsidered
    accounts: Mapping[str, int] = {}
    apart: Difference | None = None

    @property
    def differences(self) -> int:
        """How many records are otherwise."""
        return len(self.decisions.disagreements) + (self.apart is not None)


def _refuse_beside(engine: str, **given: object) -> None:
    """Refuse what only recordings of the pod engine can be asked."""
    for option, value in given.items():
        if value:
            wanted = "goes with recordings of single pods"
            raise typer.BadParameter(f"{wanted}; this one is of the engine {engine!r}", param_hint=f"'--{option}'")


# -- what is done --------------------------------------------------------------------------------------------------


def _checked(file: Path, plugins: Sequence[type[Plugin]]) -> Again:
    """Let an engine decide everything again by itself, until it decides otherwise."""
    from kframework.core.cycle.decision import Decision
    from kframework.core.runtime.registry import Registry
    from kframework.observe.recording.reconsider import Disagreement, Reconsidered
    from kframework.observe.recording.replay import replay

    replayed = replay(file, Registry.of(*plugins))
    difference = replayed.difference
    alike = Reconsidered(replayed.decisions, (), cut_off=replayed.cut_off)
    if difference is None:
        return Again(alike, replayed.accounts)
    say("error", str(difference))
    recorded, now = difference.recorded, difference.replayed
    if isinstance(recorded, Decision | None) and isinstance(now, Decision | None):
        found = Disagreement(", ".join(difference.fields) or "no such attempt", recorded, now)
        return Again(replace(alike, disagreements=(found,)), replayed.accounts)
    return Again(alike, replayed.accounts, difference)


def _reconsidered(file: Path, config: str | None, plugins: Sequence[type[Plugin]]) -> Reconsidered:
    from kframework.core.runtime.registry import Registry
    from kframework.observe.recording.reconsider import reconsider

    configuration = configured(config, plugins) if config is not None else None
    return reconsider(file, configuration, Registry.of(*plugins))


def _report(file: Path, plugins: Sequence[type[Plugin]], page: str) -> None:
    from kframework.core.runtime.registry import Registry
    from kframework.explain.view import PodEngineShown
    from kframework.observe.history import History
    from kframework.observe.recording.following import Replay
    from kframework.observe.report import report

    history = History()
    replay = Replay(file, Registry.of(*plugins), observers=[history])
    replay.tell_until(lambda decision: False)
    text = report(PodEngineShown(replay.engine, history), title=f"Recording {file}")
    Path(page).write_text(text, encoding="utf-8")


# -- what came of it -----------------------------------------------------------------------------------------------


def _say_maker(recorded: Recorded) -> None:
    from kframework._version import __version__
    from kframework.observe.recording.engines import offered_by

    maker, this = recorded.header.made_by, f"kframework {__version__}"
    if maker != this:
        say("notice", f"recorded by {maker}, and this is {this}: it may decide otherwise")
    offerer, this = recorded.header.offered_by, offered_by(recorded.header.engine)
    if this and offerer != this:
        say("notice", f"recorded with {offerer}, and this is {this}: it may decide otherwise")
    if recorded.header.part > 1:
        say("notice", f"part {recorded.header.part} of a recording: it begins with what was known of the time before")


def _print(again: Again, output: Form | None) -> None:
    result = again.decisions
    found = result.disagreements
    if output is Form.JSON:
        print_json(
            {
                "attempts": result.attempts,
                **{f"{noun}s": count for noun, count in again.accounts.items()},
                "part": result.part,
                "cutOff": result.cut_off,
                "differences": [*map(_item, found), *([] if again.apart is None else [_account(again.apart)])],
            }
        )
    elif found and output is Form.WIDE:
        print_table(_WIDE_HEADERS, [_wide_row(disagreement) for disagreement in found])
    elif found:
        print_table(_HEADERS, [_row(disagreement) for disagreement in found])


def _account(apart: Difference) -> dict[str, object]:
    return {
        "account": apart.name,
        "difference": ", ".join(apart.fields),
        "recorded": apart.recorded,
        "now": apart.replayed,
    }


def _item(disagreement: Disagreement) -> dict[str, object]:
    one, recorded, now = _sides(disagreement)
    return {
        "attempt": one.attempt,
        "pod": one.pod,
        "difference": disagreement.kind,
        "recorded": _decided(recorded),
        "now": _decided(now),
    }


def _sides(disagreement: Disagreement) -> tuple[Decision, Decision | None, Decision | None]:
    """Return one of the decisions, then the recorded and the new one."""
    recorded, now = disagreement.recorded, disagreement.now
    one = recorded or now
    assert one is not None
    return one, recorded, now


def _decided(decision: Decision | None) -> dict[str, object] | None:
    """Return what was decided, without what was measured."""
    return None if decision is None else {field: getattr(decision, field) for field in _DECIDED}


def _row(disagreement: Disagreement) -> tuple[str, ...]:
    one, recorded, now = _sides(disagreement)
    return str(one.attempt), one.pod, _where(recorded), _where(now), disagreement.kind, _why(disagreement)


def _wide_row(disagreement: Disagreement) -> tuple[str, ...]:
    from kframework.clock import rfc3339

    one, recorded, now = _sides(disagreement)
    attempt, pod, before, after, kind, message = _row(disagreement)
    time, profile = rfc3339(one.popped_at), one.profile
    return attempt, time, pod, profile, before, *_numbers(recorded), after, *_numbers(now), kind, message


def _numbers(decision: Decision | None) -> tuple[str, str]:
    """Return score and number of feasible nodes; a score only where there was something to choose from."""
    if decision is None:
        return NONE, NONE
    return str(decision.score) if decision.top else NONE, str(decision.feasible)


def _where(decision: Decision | None) -> str:
    """Name the node, or in brackets the one where room is being made."""
    if decision is None:
        return NONE
    return decision.node or (f"({decision.nominated})" if decision.nominated else NONE)


def _why(disagreement: Disagreement) -> str:
    """Say what stands behind a difference."""
    recorded, now = disagreement.recorded, disagreement.now
    if recorded is None or now is None:
        return ""
    match disagreement.kind:
        case "other node":
            return ", ".join(f"{node} {score}" for node, score in now.top)
        case "fits now":
            return recorded.message
        case "other victims":
            return f"preempts {', '.join(now.victims)}" if now.victims else now.message
    return now.message


def _summarise(again: Again, config: str | None) -> None:
    sys.stdout.flush()  # so that the last line comes last where both streams go to one place
    result, apart = again.decisions, again.apart
    say_cut_off(result.cut_off)
    by = "the recorded configuration" if config is None else config
    kinds = Counter(disagreement.kind for disagreement in result.disagreements)
    if apart is not None:
        kinds[", ".join(apart.fields) or f"no such {apart.name.partition(' ')[0]}"] += 1
    asked = " and ".join(
        [f"{result.attempts} attempts", *(f"{count} {noun}s" for noun, count in again.accounts.items())]
    )
    say_differences(asked, by, kinds)
