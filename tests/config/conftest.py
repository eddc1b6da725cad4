"""Whatever a test here loads, the JSON Schema has to agree about it with the loader."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kframework.config import load
from kframework.config.configuration import Configuration
from kframework.config.document import Document
from kframework.errors import ConfigError
from tests.support.schemas import check_args, disagreement, schema_errors


@pytest.fixture(autouse=True)
def schema_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the two for every document that is loaded."""
    original = load.configuration_from_documents

    def compared(parsed: Sequence[Document], file: str | None) -> Configuration:
        schema = [line for document in parsed for line in schema_errors(document.data)]
        try:
            configuration = original(parsed, file)
        except ConfigError as error:
            assert not (told := disagreement(str(error).splitlines(), schema)), told
            raise
        try:
            check_args(configuration)
        except ConfigError as error:
            assert not (told := disagreement(str(error).splitlines(), schema)), told
        else:
            assert not (told := disagreement([], schema)), told
        return configuration

    monkeypatch.setattr(load, "configuration_from_documents", compared)
