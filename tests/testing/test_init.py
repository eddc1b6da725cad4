"""The door of tests hands on what it lists, each name when it is asked for."""

from __future__ import annotations

import pytest

import kframework.testing


def test_every_name_is_there() -> None:
    assert sorted(kframework.testing.__all__) == sorted(kframework.testing._HOMES)
    for name in kframework.testing.__all__:
        assert getattr(kframework.testing, name) is not None
    assert set(kframework.testing.__all__) <= set(dir(kframework.testing))


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'kframework\.testing' has no attribute 'Scenarios'"):
        kframework.testing.Scenarios  # type: ignore[attr-defined]  # noqa: B018  # the point of it
