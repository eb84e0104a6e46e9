"""Check shapetrace against the models of transformers: `python -m tests.zoo [TYPE …] [--group G] [--check C]`.

Each type is built small with random weights, run, and traced; the table ends in a summary. Exits with 1 if a check of a
type that runs does not hold.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import transformers

from .rows import CHECKS, rows
from .species import GROUPS
from .summary import line, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("types", nargs="*", metavar="TYPE", help="model types, as gpt2; all of them if there is none")
    parser.add_argument("--group", action="append", choices=GROUPS, help="may be repeated")
    parser.add_argument("--check", action="append", choices=CHECKS, help="may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="how many types at once")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    types = [
        (group, name)
        for group in options.group or GROUPS
        for name in sorted(GROUPS[group])
        if not options.types or name in options.types
    ]
    if unknown := sorted(set(options.types) - {name for _, name in types}):
        parser.error(f"no such type: {', '.join(unknown)}")
    done = []
    for row in rows(types, options.check or list(CHECKS), options.jobs):
        print(line(row), flush=True)
        done.append(row)
    print()
    print(summary(done))
    return int(any(verdict.holds is False for row in done for verdict in row.verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
