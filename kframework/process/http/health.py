"""Health checks, answered like Kubernetes' servers at `/healthz`, `/livez` and `/readyz`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kframework.client.transport import Response
from kframework.errors import escape_text

_log = logging.getLogger(__name__)

#: The headers of plain-text answers, so that browsers do not interpret them as another type.
PLAIN: Mapping[str, str] = MappingProxyType(
    {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
)


class Check(NamedTuple):
    """A health check: `problem` returns what is wrong, None if nothing is.

    In a combined answer the problems of Kubernetes' own checks are withheld, as Kubernetes does.
    """

    name: str
    problem: Callable[[], str | None]
    withheld: bool = True


#: Called for each check that ran, with the endpoint, the check's name, and its problem, None if it passed.
CheckObserver = Callable[[str, str, str | None], None]

PING = Check("ping", lambda: None)


def ignore_check(endpoint: str, check: str, problem: str | None) -> None:
    """Take no notice of a check."""


def check_health(
    endpoint: str, checks: Sequence[Check], query: Sequence[tuple[str, str]], on_check: CheckObserver = ignore_check
) -> Response:
    """Answer whether all checks pass that are not excluded; withheld problems are only logged."""
    excluded = [value for name, value in query if name == "exclude"]
    lines, problems = list[str](), list[str]()
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        problem = check.problem()
        on_check(endpoint, check.name, problem)
        if problem is not None:
            lines.append(f"[-]{check.name} failed: {'reason withheld' if check.withheld else escape_text(problem)}")
            problems.append(f"{check.name}: {problem}")
        else:
            lines.append(f"[+]{check.name} ok")
    if unknown := {*excluded}.difference(check.name for check in checks):
        names = ",".join(map(json.dumps, sorted(unknown)))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if problems:
        _log.info("%s check failed: %s", endpoint, "; ".join(problems))
        return plain("\n".join([*lines, f"{endpoint} check failed\n"]), 500)
    is_verbose = any(name == "verbose" for name, _ in query)
    return plain("\n".join([*lines, f"{endpoint} check passed\n"]) if is_verbose else "ok")


def health_of(check: Check) -> Response:
    """Answer whether one check passes, with its problem if not."""
    problem = check.problem()
    return plain("ok") if problem is None else plain(f"internal server error: {escape_text(problem)}\n", 500)


def plain(text: str, status: int = 200) -> Response:
    return Response(status, text.encode(), PLAIN)
