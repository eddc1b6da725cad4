"""The entry of the command line, as a script and as `python -m kframework`."""

from __future__ import annotations

import os

from kframework.scheduler.gc_policy import gc_paused

#: For how long idle threads of numpy's BLAS spin before they sleep: 2^4 cycles, the least, instead of 2^26. They start
#: when numpy is imported and took 65 ms of a core that an API server on the same machine needs then.
_BLAS_SPIN = "OPENBLAS_THREAD_TIMEOUT", "4"


def main() -> None:
    """Import the command line, with nothing collected meanwhile, and run it."""
    os.environ.setdefault(*_BLAS_SPIN)
    with gc_paused():
        from kframework.cli import main as run
    run()


if __name__ == "__main__":
    main()
