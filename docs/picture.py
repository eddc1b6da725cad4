"""The picture that README.md opens with: the page of the demo, while most of its pods run.

Run with `python -m docs.picture`; it writes docs/page.webp, by Chromium and with the fonts that are there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from kframework import Simulation
from tests.observe.web.chromium import Browser, Screen

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "page.webp"
CLUSTER, CONFIG = "examples/clusters/demo.yaml", "examples/configs/demo.yaml"

#: Virtual seconds after the start: one group still waits for its last member, and nothing has ended yet.
MOMENT = 25
#: As narrow as two lists beside each other can be, so that letters are large where the picture is shown smaller.
SCREEN: Screen = (1100, 900)


def page() -> str:
    """Return the page of the demo at that moment, every call timed."""
    # The first run of a process imports and compiles, which would be taken for the scheduler's own time.
    for _ in range(2):
        with Simulation(str(ROOT / CLUSTER), str(ROOT / CONFIG), timed_share=1.0) as simulation:
            shown = simulation.run(MOMENT).report(f"Simulation of {CLUSTER}")
    return shown


async def photograph(file: Path, browser: Browser) -> bytes:
    """Return a picture of a page in a file, down to the nodes."""
    async with browser.open(file.as_uri(), screen=SCREEN) as tab:
        await tab.until("document.querySelector('#picture tr') && document.querySelector('#parts article')")
        return await tab.picture("#nodes", margin=12, scale=2)


def main(picture: Path = PICTURE) -> None:
    """Simulate the demo and write the picture of it."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(page(), encoding="utf-8")
        with Browser.running(Path(folder, "chromium")) as browser:
            picture.write_bytes(asyncio.run(photograph(file, browser)))


if __name__ == "__main__":
    main()
