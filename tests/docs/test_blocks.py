"""Documents are read as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import Block, Command, agrees, blocks, commands
from tests.docs.examples import DOCUMENTS
from tests.examples.clean_environment import ROOT

DOCUMENT = """\
# Title

```yaml
a: 1
```

<!-- file: there/it.py -->
```python
x = 1

y = 2
```

<!-- not run: it would be rude -->
```console
$ rm -r /
```

1. A list.

   ```console
   $ echo a
   a
   ```
"""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_of_a_listing_is_named_before_it(document: Path) -> None:
    """The comment that names it is invisible to readers."""
    text = document.read_text()
    comments = re.finditer(r"\n *<!-- file: (\S+) -->", text)
    unnamed = [match[1] for match in comments if match[1] not in text[: match.start()].rstrip().split("\n\n")[-1]]
    assert not unnamed


def test_blocks_are_found() -> None:
    assert list(blocks(DOCUMENT)) == [
        Block(3, "yaml", "a: 1\n"),
        Block(8, "python", "x = 1\n\ny = 2\n", "there/it.py"),
        Block(21, "console", "$ echo a\na\n"),
    ]


def test_commands_and_their_output_are_separated() -> None:
    block = Block(1, "console", "$ cat <<END\n> a\n> END\na\n$ true\n$ echo b c\nb c\n")
    assert list(commands(block)) == [
        Command("cat <<END\na\nEND", ("a",)),
        Command("true", ()),
        Command("echo b c", ("b c",)),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "answer"),
    [
        ("", "", True),
        ("a", "a", True),
        ("a", "a  ", True),
        ("a", "b", False),
        ("a", "", False),
        ("", "a", False),
        ("...", "", True),
        ("a ...", "a b c", True),
        ("... c", "a b c", True),
        ("a ... c", "a b", False),
        ("a ... b ... d", "a b c d", True),
        ("a b", "a b c", False),
    ],
)
def test_ellipsis_matches_any_lines(expected: str, printed: str, answer: bool) -> None:
    assert agrees(tuple(expected.split()), tuple(printed.replace("  ", "").split())) is answer
