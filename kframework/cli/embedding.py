"""What `kframework run` does, for Python programs with plugins of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kframework.cli.logs import logging_to_stderr, set_verbosity
from kframework.cli.process import EmbeddedOptions, ProcessOptions
from kframework.cli.run import overriding, schedule
from kframework.core.runtime.given import ConfigurationSource
from kframework.framework.plugin import Plugin
from kframework.simulation.inputs import configured


def run(
    config: ConfigurationSource | None = None,
    *,
    plugins: Iterable[type[Plugin]] = (),
    kubeconfig: str | None = None,
    context: str | None = None,
    master: str | None = None,
    dry_run: bool = False,
    leader_elect: bool | None = None,
    embedded: bool = False,
    filenames: Sequence[str] = (),
    devices: str | None = None,
    port: int = 0,
    write_kubeconfig: str | None = None,
    bind_address: str = "127.0.0.1",
    secure_port: int = 10259,
    tls_cert_file: str = "",
    tls_private_key_file: str = "",
    record: str | None = None,
    record_annotations: Sequence[str] = (),
    verbosity: int = 0,
) -> None:
    """Schedule the pods of a cluster until SIGTERM or SIGINT, as `kframework run` does with the options of these names.

    `config` is a KubeSchedulerConfiguration: a file, or the same as a mapping. It can name `plugins` beside the
    installed ones; without it the default profile has them wherever they can run. All else that the command has an
    option for stands in the configuration too. Call it in the main thread: it blocks, and it writes the log to stderr.
    Raises ConfigError for what cannot be used, LeadershipLost when another scheduler may lead.
    """
    if not embedded and (filenames or devices or port or write_kubeconfig):
        raise ValueError("filenames, devices, port and write_kubeconfig go with embedded=True")
    process = ProcessOptions(
        kubeconfig=kubeconfig,
        kube_context=context,
        master=master,
        dry_run=dry_run,
        leader_elect=leader_elect,
        bind_address=bind_address,
        secure_port=secure_port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
    )
    server = EmbeddedOptions(embedded=embedded, devices=devices, port=port, write_kubeconfig=write_kubeconfig)
    given = tuple(plugins)
    with logging_to_stderr():
        set_verbosity(verbosity)
        configuration = overriding(configured(config, given), process)
        schedule(
            configuration,
            given,
            process,
            server,
            filenames,
            record=record,
            annotations=record_annotations,
            verbosity=verbosity,
        )
