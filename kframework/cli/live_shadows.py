"""The differences that the shadows of a running scheduler have found: `kframework compare --live`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kframework.cli.ask_scheduler import ask_scheduler
from kframework.cli.printing import print_json, print_lines, print_table
from kframework.errors import ExplainError
from kframework.observe.text_table import NONE

if TYPE_CHECKING:
    from kframework.observe.web.shadows import ShadowSummary


def print_shadows(url: str, certificate_authority: str | None, *, as_json: bool) -> None:
    """Print what the shadows of the scheduler at a URL decide otherwise; ExplainError if it has none."""
    from kframework.observe.web.shadows import ShadowList

    answer = msgspec.json.decode(ask_scheduler(url, certificate_authority, "/view/shadows"), type=ShadowList)
    if as_json:
        print_json(answer)
        return
    if not answer.shadows:
        raise ExplainError(f"the scheduler at {url} has no shadow profile: mark one in its configuration")
    for shadow in answer.shadows:
        print_lines(*_describe(shadow))
    rows = [
        (each.pod, each.outcome, each.node or NONE, each.shadow_node or NONE, each.reason)
        for shadow in answer.shadows
        for each in shadow.differences
    ]
    if rows:
        print_lines("")
        print_table(("POD", "OUTCOME", "NODE", "SHADOW", "REASON"), rows)


def _describe(shadow: ShadowSummary) -> list[str]:
    pods, agreed = shadow.decided + shadow.skipped, shadow.outcomes.get("agreed", 0)
    share = f", {100 * agreed / shadow.decided:.1f} % agreed" if shadow.decided else ""
    lines = [f"shadow {shadow.name} of {shadow.profile}: {shadow.decided:,} of {pods:,} pods decided{share}"]
    if shadow.problem:
        lines.append(f"  it decides no pods: {shadow.problem}")
    elif shadow.share < 1:
        lines.append(f"  its budget suffices for {100 * shadow.share:.1f} % of the pods")
    lines += [f"  {outcome} {count:,}" for outcome, count in shadow.outcomes.items() if count and outcome != "agreed"]
    if shadow.plugins:
        lines.append(f"  by plugin: {', '.join(f'{name} {count:,}' for name, count in shadow.plugins.items())}")
    return lines
