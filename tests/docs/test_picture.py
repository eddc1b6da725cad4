"""The picture that the README opens with: it can be made again, and is small."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.picture import PICTURE, ROOT, main

pytestmark = pytest.mark.slow

#: What nobody on a slow line waits for, in bytes.
MOST = 300_000


@pytest.mark.tool("chromium")
def test_demo_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "page.webp"
    main(picture)
    assert is_webp(picture.read_bytes())
    # White paper takes a twentieth of it.
    assert MOST / 5 < picture.stat().st_size < MOST


def test_readme_starts_with_the_demo_and_is_short() -> None:
    assert is_webp(PICTURE.read_bytes()) and PICTURE.stat().st_size < MOST
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) < 200
    (first, *_) = (place for place, line in enumerate(lines) if line.startswith("!["))
    assert f"({PICTURE.relative_to(ROOT)})" in lines[first]
    assert not any(line.startswith("##") for line in lines[:first])


def is_webp(data: bytes) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"
