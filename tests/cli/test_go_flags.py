"""kube-scheduler's command line is accepted as its manifests have it."""

from __future__ import annotations

import pytest

from kframework.cli.go_flags import translate_arguments

SWITCHES = {"--leader-elect"}


@pytest.mark.parametrize(
    ("arguments", "understood", "meaningless"),
    [
        ("", "", ""),
        ("--config c.yaml -v 2", "--config c.yaml -v 2", ""),
        ("-v=2 --v=2", "-v 2 --v=2", ""),
        ("--leader-elect", "--leader-elect", ""),
        ("--leader-elect=true", "--leader-elect", ""),
        ("--leader-elect=T", "--leader-elect", ""),
        ("--leader-elect=false", "--no-leader-elect", ""),
        ("--leader-elect=0", "--no-leader-elect", ""),
        ("--leader-elect=maybe", "--leader-elect=maybe", ""),
        ("--kubeconfig=a=b", "--kubeconfig=a=b", ""),
        ("--unheard-of=1 x", "--unheard-of=1 x", ""),
        ("--profiling -v 1", "-v 1", "--profiling"),
        ("--profiling=false -v 1", "-v 1", "--profiling"),
        ("--vmodule a=1 -v 1", "-v 1", "--vmodule"),
        ("--vmodule=a=1,b=2 -v 1", "-v 1", "--vmodule"),
        ("--vmodule", "", "--vmodule"),
        ("--profiling --cert-dir=d --profiling=true", "", "--profiling --cert-dir --profiling"),
        ("-- --profiling", "-- --profiling", ""),
    ],
)
def test_arguments_are_sorted_out(arguments: str, understood: str, meaningless: str) -> None:
    assert translate_arguments(arguments.split(), SWITCHES) == (understood.split(), meaningless.split())
