"""The entry of the command line, as a script and as `python -m kframework`."""

from __future__ import annotations

from kframework.scheduler.gc_policy import gc_paused


def main() -> None:
    """Import the command line, with nothing collected meanwhile, and run it."""
    with gc_paused():
        from kframework.cli import main as run
    run()


if __name__ == "__main__":
    main()
