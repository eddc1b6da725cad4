"""What the commands that run a scheduler as a process have in common."""

from __future__ import annotations

from dataclasses import replace
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from kframework.cli.options import expand_options
from kframework.cli.process import EmbeddedOptions, ProcessOptions, create_event_printer, print_target
from kframework.client.kube_transport import KubeTransport
from kframework.config.load import default_configuration, with_overrides
from kframework.objects import Event, EventSeries, ObjectMeta, ObjectReference
from kframework.verbosity import NOTICE


def test_election_options_go_into_the_configuration() -> None:
    election = ProcessOptions(lease_duration=60.0, resource_name="mine").election()
    changed = with_overrides(default_configuration(), leader_election=election, client_connection={}, options={})
    lease = changed.settings.leader_election
    assert (lease.lease_duration, lease.resource_name) == (60.0, "mine")


@pytest.mark.parametrize(
    "options",
    [
        EmbeddedOptions(filenames=["f"]),
        EmbeddedOptions(devices="file"),
        EmbeddedOptions(port=1),
        EmbeddedOptions(write_kubeconfig="file"),
    ],
)
def test_options_of_the_embedded_server_are_refused_without_embedded(options: EmbeddedOptions) -> None:
    EmbeddedOptions().refuse_alone()
    replace(options, embedded=True).refuse_alone()
    with pytest.raises(typer.BadParameter, match="only with --embedded"):
        options.refuse_alone()


def test_endpoints_can_be_turned_off() -> None:
    assert ProcessOptions(secure_port=0).listener() is None
    where = ProcessOptions(bind_address="0.0.0.0", secure_port=8080, tls_cert_file="cert").listener()
    assert where is not None
    assert (where.bind_address, where.port, where.tls_cert_file) == ("0.0.0.0", 8080, "cert")


def test_command_has_the_options_of_its_records_in_order() -> None:
    called: list[tuple[int, EmbeddedOptions, str]] = []

    @expand_options
    def command(first: int, *, embedded: EmbeddedOptions, last: str = "") -> None:
        called.append((first, embedded, last))

    options = signature(command).parameters
    assert list(options) == ["first", "filenames", "embedded", "devices", "port", "write_kubeconfig", "last"]
    assert [options[name].default for name in ("first", "filenames", "port")] == [Parameter.empty, Parameter.empty, 0]
    command(first=1, filenames=[], embedded=True, devices=None, port=2, write_kubeconfig=None, last="z")
    assert called == [(1, EmbeddedOptions(embedded=True, port=2), "z")]


def test_event_is_printed_when_it_happens_for_the_first_time(capsys: pytest.CaptureFixture[str]) -> None:
    event = Event(
        metadata=ObjectMeta(name="e", namespace="shop"),
        regarding=ObjectReference(kind="Pod", name="web", namespace="shop"),
        type="Normal",
        reason="Scheduled",
        note="to node-a",
    )
    show = create_event_printer()
    show(event)
    show(Event(metadata=event.metadata, regarding=event.regarding, series=EventSeries(count=2)))
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert line.split() == ["shop", "Normal", "Scheduled", "pod/web", "to", "node-a"]


def test_access_is_reviewed_as_the_flags_say() -> None:
    listener = ProcessOptions(
        authentication_kubeconfig="a",
        authorization_kubeconfig="",
        authorization_always_allow_paths="/livez,,/x*",
        token_ttl=3.0,
    ).listener()
    assert listener is not None and listener.delegation is not None
    delegation = listener.delegation
    assert (delegation.authentication.kubeconfig, delegation.authorization.kubeconfig) == ("a", "")
    assert (delegation.always_allow_paths, delegation.token_ttl) == (("/livez", "/x*"), 3.0)
    assert delegation.authorized_ttl == 10.0


@pytest.mark.parametrize("alone", ["authentication_kubeconfig", "authorization_kubeconfig"])
def test_both_reviews_go_together(alone: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be given together"):
        ProcessOptions(**{alone: "file"}).listener()  # type: ignore[arg-type]  # one of two names


def test_listener_without_reviews() -> None:
    listener = ProcessOptions().listener()
    assert listener is not None and listener.delegation is None


@pytest.mark.parametrize(
    ("address", "dry_run", "line"),
    [
        ("127.0.0.1:6443", False, "scheduling the pods of default-scheduler on https://s (context c)"),
        ("s:6443", False, "this will schedule the pods of default-scheduler in the cluster at https://s (context c)"),
        ("s:6443", True, "dry run for default-scheduler: nothing is written to https://s (context c)"),
    ],
)
def test_first_line_names_cluster_and_schedulers(
    address: str, dry_run: bool, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = SimpleNamespace(address=address, description="https://s (context c)")
    with caplog.at_level(NOTICE):
        print_target(default_configuration(), ProcessOptions(dry_run=dry_run), cast("KubeTransport", transport))
    assert caplog.messages == [line]
