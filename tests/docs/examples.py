"""The documents that show examples, and their Python examples as modules."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.blocks import blocks
from tests.examples.clean_environment import ROOT

__all__ = ["DOCUMENTS", "write_examples"]

_PLACES = (
    "README.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "contrib_plugins/README.md",
    "contrib_plugins/*/README.md",
)
_WRITTEN = [document for place in _PLACES for document in ROOT.glob(place)]
DOCUMENTS = sorted(document for document in _WRITTEN if any(blocks(document.read_text())))


def write_examples(folder: Path) -> set[str]:
    """Write the examples as modules, those with a file's name under it, others under document and line; return all.

    Of a file that is written more than once, the last version has the name: others may import it.
    """
    written: dict[str, str] = {}
    for document in DOCUMENTS:
        for block in blocks(document.read_text()):
            if block.language != "python":
                continue
            own = re.sub(r"\W", "_", f"{document.relative_to(ROOT)} {block.line}") + ".py"
            file = block.file or own
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if file in written:
                path.rename(folder / written[file])
            path.write_text(block.text)
            written[file] = own
    return {*written}
