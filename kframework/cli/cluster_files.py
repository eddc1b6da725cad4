"""The cluster files that several commands read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kframework.cli.logs import say

if TYPE_CHECKING:
    from kframework.objects.manifest import Manifest


def read_cluster(filenames: Sequence[str]) -> Manifest:
    """Read the objects of cluster files, of all kinds that are installed, and say what is passed over."""
    from kframework.core.runtime.installed_kinds import declare_installed_kinds
    from kframework.objects.manifest import read

    for problem in declare_installed_kinds():
        say("warning", str(problem))
    manifest = read(filenames)
    if manifest.passed_over:
        names = ", ".join(f"{kind.count} {kind.kind} ({kind.api_version})" for kind in manifest.passed_over)
        say("notice", f"passed over, as no scheduler reads them: {names}")
    if any(kind.kind == "KubeSchedulerConfiguration" for kind in manifest.passed_over):
        say("notice", "a KubeSchedulerConfiguration is given with --config")
    return manifest
