"""Run the benchmarks named on the command line; without a name, `targets`."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import benchmarks

#: Modules that the benchmarks share.
SHARED = {
    *("__main__", "fake_api", "faulty_proxy", "hostile_inputs", "line_chart", "over_http"),
    *("packing", "shadow", "timing", "whole_commands"),
}


def main(names: list[str]) -> int:
    """Run the chosen benchmarks; return the exit code."""
    known = sorted(module.name for module in iter_modules(benchmarks.__path__) if module.name not in SHARED)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.stderr.write(f"error: no benchmark {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    for name in names or ["targets"]:
        benchmark = import_module(f"benchmarks.{name}")
        title, *_ = (benchmark.__doc__ or "").splitlines()
        sys.stdout.write(f"{name}: {title}\n\n")
        benchmark.main()
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
