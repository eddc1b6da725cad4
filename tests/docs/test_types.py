"""Every Python example in the documents passes mypy --strict and pyright."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.test_documents import DOCUMENTS
from tests.examples.clean_environment import ROOT
from tests.support.type_checkers import Complaint, mypy, pyright

pytestmark = pytest.mark.slow


@pytest.mark.timeout(180)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_examples_pass(checker: Callable[[Path], list[Complaint]], tmp_path: Path) -> None:
    places = write_examples(tmp_path)
    problems = [f"{places[file]}, line {line} of the block: {text}" for file, line, text in checker(tmp_path)]
    assert not problems, "\n".join(problems)


def write_examples(folder: Path) -> dict[str, str]:
    """Write the examples as modules, those with a file's name under it; return where each stands in the documents.

    Of a file that is written more than once, the last version has the name: others may import it.
    """
    places: dict[str, str] = {}
    for document in DOCUMENTS:
        name = str(document.relative_to(ROOT))
        for block in blocks(document.read_text()):
            if block.language != "python":
                continue
            place = f"{name}, block in line {block.line}"
            own = f"example_{len(places)}.py"
            file = block.file or own
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if file in places:
                path.rename(folder / own)
                places[own] = places[file]
            path.write_text(block.text)
            places[file] = place
    return places
