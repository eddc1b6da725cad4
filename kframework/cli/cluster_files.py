"""The cluster files that several commands read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kframework.cli.logs import say

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.framework.plugin import Plugin
    from kframework.objects.manifest import Manifest


def read_cluster(
    filenames: Sequence[str], configuration: Configuration | None = None, plugins: Sequence[type[Plugin]] = ()
) -> Manifest:
    """Read the objects of cluster files and say what is passed over.

    They may be of all kinds that are installed, or that the plugins of a configuration declare.
    """
    from kframework.core.runtime.installed_kinds import declare_installed_kinds
    from kframework.objects.manifest import read

    if configuration is not None:
        from kframework.core.runtime.profiles import load_plugins
        from kframework.core.runtime.registry import Registry

        load_plugins(configuration, Registry.of(*plugins))
    for problem in declare_installed_kinds():
        say("warning", str(problem))
    manifest = read(filenames)
    if manifest.passed_over:
        names = ", ".join(f"{kind.count} {kind.kind} ({kind.api_version})" for kind in manifest.passed_over)
        say("notice", f"passed over, as no scheduler reads them: {names}")
    if any(kind.kind == "KubeSchedulerConfiguration" for kind in manifest.passed_over):
        say("notice", "a KubeSchedulerConfiguration is given with --config")
    return manifest
