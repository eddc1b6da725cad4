from __future__ import annotations

from kframework.cel.errors import CelError


def test_error_shows_its_position() -> None:
    error = CelError("undefined field 'x'", 14).with_expression("true &&\ndevice.x")
    assert error.expression == "true &&\ndevice.x"
    assert str(error) == "ERROR: <input>:2:7: undefined field 'x'\n | device.x\n | ......^"


def test_evaluation_error_is_its_text() -> None:
    assert str(CelError("no such key: x").with_expression("device.x")) == "no such key: x"
