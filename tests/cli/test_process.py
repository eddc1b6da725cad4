"""What the commands that run a scheduler as a process have in common."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import typer

from kframework.cli.process import election, event_printer, listener, refuse_without_embedded
from kframework.cli.run import command
from kframework.config.load import default_configuration
from kframework.config.overrides import overridden
from kframework.objects import Event, EventSeries, ObjectMeta, ObjectReference


def test_what_is_said_about_the_election_goes_into_the_configuration() -> None:
    names = command.__annotations__
    params: dict[str, object] = dict.fromkeys(names) | {"lease_duration": 60.0, "resource_name": "mine"}
    context: Any = SimpleNamespace(params=params)
    changed = overridden(default_configuration(), leader_election=election(context), client_connection={}, options={})
    lease = changed.settings.leader_election
    assert (lease.lease_duration, lease.resource_name) == (60.0, "mine")


@pytest.mark.parametrize(("filenames", "port", "kubeconfig"), [(["f"], 0, None), ([], 1, None), ([], 0, "file")])
def test_what_belongs_to_the_embedded_server_goes_with_it_only(
    filenames: list[str], port: int, kubeconfig: str | None
) -> None:
    refuse_without_embedded([], 0, None)
    with pytest.raises(typer.BadParameter, match="go with --embedded only"):
        refuse_without_embedded(filenames, port, kubeconfig)


def test_there_may_be_no_endpoints() -> None:
    assert listener("127.0.0.1", 0, "", "") is None
    where = listener("0.0.0.0", 8080, "cert", "key")  # the address is only read
    assert where is not None
    assert (where.port, where.tls_cert_file, where.tls_private_key_file) == (8080, "cert", "key")


def test_an_event_is_printed_when_it_happens_for_the_first_time(capsys: pytest.CaptureFixture[str]) -> None:
    event = Event(
        metadata=ObjectMeta(name="e", namespace="shop"),
        regarding=ObjectReference(kind="Pod", name="web", namespace="shop"),
        type="Normal",
        reason="Scheduled",
        note="to node-a",
    )
    show = event_printer()
    show(event)
    show(Event(metadata=event.metadata, regarding=event.regarding, series=EventSeries(count=2)))
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert line.split() == ["shop", "Normal", "Scheduled", "pod/web", "to", "node-a"]
