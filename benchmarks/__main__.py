"""``make bench``, or ``python -m benchmarks append recovery`` for some of them."""

from __future__ import annotations

import importlib
import sys

from benchmarks.measure import machine, print_rows

ALL = (
    *("frames", "net", "records", "append", "read", "filters", "typed"),
    *("index", "recovery", "producer", "consumer", "consume", "arrow", "app", "transactions"),
)


def main() -> None:
    names = sys.argv[1:] or ALL
    print(machine())
    print("CPU µs are this process's user and system time; the best repetition counts. Rates are wall time.")
    for name in names:
        if name not in ALL:
            sys.exit(f"no benchmark called {name}; there are {', '.join(ALL)}")
        module = importlib.import_module(f"benchmarks.bench_{name}")
        print_rows((module.__doc__ or name).strip(), module.rows())


if __name__ == "__main__":
    main()
