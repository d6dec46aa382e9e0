"""The benchmarks' command line; see the package."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable

from rich.console import Console

from benchmarks.place import Place
from benchmarks.result import Result, machine
from benchmarks.rounds import say

# The quick ones first; vacuum takes a good ten minutes.
NAMES = ("drain", "send", "pickup", "inbox", "parked", "producers", "gauges", "retention", "memory", "vacuum")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="redrive beside bare pgmq and a peer"
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)}; all when none is named"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in NAMES]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    console = Console(highlight=False, width=120)
    results: list[Result] = []
    with Place() as place:
        about = machine(place)
        if not asked.json:
            for name, what in about.items():
                console.print(f"{name:>10}  {what}", soft_wrap=True)
            console.print()
        for name in asked.names or NAMES:
            say(name)
            run: Callable[[Place], Result] = importlib.import_module(f"benchmarks.{name}").run
            results.append(run(place))
            if not asked.json:
                results[-1].show(console)
    if asked.json:
        print(json.dumps({"machine": about, "results": [result.as_dict() for result in results]}, indent=2))


if __name__ == "__main__":
    main()
