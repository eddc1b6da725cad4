from __future__ import annotations

from kframework.cel.errors import CelError


def test_an_error_shows_where_in_the_expression_it_is() -> None:
    error = CelError("undefined field 'x'", 14).within("true &&\ndevice.x")
    assert error.expression == "true &&\ndevice.x"
    assert str(error) == "ERROR: <input>:2:7: undefined field 'x'\n | device.x\n | ......^"


def test_an_error_at_run_time_is_its_text() -> None:
    assert str(CelError("no such key: x").within("device.x")) == "no such key: x"
