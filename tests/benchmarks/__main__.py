"""`python -m tests.benchmarks [--json] [--quick]`: what a round costs, as ratios within one run.

Prints a table at a terminal, JSON lines elsewhere or with `--json`. Exit status 1 where a figure is
over its limit. `--quick` only shows that everything runs: its figures mean nothing.
"""

import argparse
import sys

import msgspec

from tests.benchmarks.figures import QUICK, WHOLE, Figure, measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, also at a terminal")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    given = parser.parse_args()
    as_json = given.json or not sys.stdout.isatty()
    is_over = False
    for figure in measure(QUICK if given.quick else WHOLE):
        is_over |= figure.is_over
        if as_json:
            plain = msgspec.to_builtins(figure)
            print(msgspec.json.encode({**plain, "value": round(figure.value, 4)}).decode())
        else:
            print(row(figure))
        sys.stdout.flush()
    return 1 if is_over and not given.quick else 0


def row(figure: Figure) -> str:
    limit = "" if figure.limit is None else f"<= {figure.limit:g}"
    verdict = "over" if figure.is_over else "ok" if figure.limit is not None else ""
    return (
        f"{figure.name:<22} {figure.value:>9.3f} {limit:>8} {figure.unit:<10} {verdict:<5}"
        f"{figure.note}"
    )


if __name__ == "__main__":
    sys.exit(main())
