"""The options of commands that read a cluster once, from files or as a kubeconfig names it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.config import compile_profiles
from kframework.cli.options import Devices
from kframework.simulation.inputs import read_cluster, report_ignored

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.framework.plugin import Plugin
    from kframework.objects import ApiObject
    from kframework.objects.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class LiveCluster:
    """A cluster of files, or one that a kubeconfig names."""

    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the cluster that this kubeconfig names, not files.")
    ] = None
    kube_context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; without it, the current one."),
    ] = None

    devices: Devices = None

    def require_either(self, files: Sequence[str], option: str) -> None:
        """Refuse both files and a kubeconfig, and neither; `option` names the files."""
        if self.kube_context is not None and self.kubeconfig is None:
            raise typer.BadParameter("only with --kubeconfig", param_hint="'--context'")
        if self.kubeconfig is None and not files:
            raise typer.BadParameter(f"name the cluster with {option}, or with --kubeconfig")
        if self.kubeconfig is not None and self.devices is not None:
            raise typer.BadParameter("not with --kubeconfig: the cluster has its own", param_hint="'--devices'")
        if self.kubeconfig is not None and files:
            raise typer.BadParameter("give either files or a kubeconfig")

    def read(
        self,
        files: Sequence[str],
        configuration: Configuration,
        plugins: Sequence[type[Plugin]] = (),
    ) -> Manifest:
        """Read the files, or else the cluster that the kubeconfig names, which has no locations."""
        from kframework.core.queue.group_queue import group_watches
        from kframework.core.runtime.profiles import watched_kinds
        from kframework.objects.manifest import Manifest

        if self.kubeconfig is not None:
            watched = watched_kinds(compile_profiles(configuration.with_all_profiles, plugins))
            groups = (watch.kind for watch in group_watches(configuration.options.gates))
            return Manifest(self.list_objects((*watched, *groups)))
        manifest = read_cluster(files, configuration, plugins, devices=self.devices)
        report_ignored(manifest, configuration, plugins)
        return manifest

    def list_objects(self, watched: Iterable[type[ApiObject]]) -> list[ApiObject]:
        """Read what a scheduler watches in the cluster, and what decides which pods are admitted."""
        import asyncio
        from random import Random

        from kframework.client.kube import ConnectionSettings, connect
        from kframework.client.kube_cluster import KubeCluster, list_objects
        from kframework.clock import SystemClock
        from kframework.objects import LimitRange, PriorityClass, RuntimeClass

        kinds: list[type[ApiObject]] = [*watched, PriorityClass, RuntimeClass, LimitRange]

        async def read() -> list[ApiObject]:
            transport = await connect(ConnectionSettings(kubeconfig=self.kubeconfig, context=self.kube_context))
            try:
                return await list_objects(KubeCluster(transport, SystemClock(), random=Random()), dict.fromkeys(kinds))
            finally:
                await transport.close()

        return asyncio.run(read())
