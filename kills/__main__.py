"""`python -m kills`: kill and stop processes of sessions at random moments; a table of the cost.

Exit code 1 if once it was more than docs/hosts.md promises. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .ground import Ground
from .hits import LAYOUTS, Ran, drawn, ran, surprises, undisturbed


def main() -> int:
    """Hit so many sessions; 1 if one of them was not as expected."""
    parser = argparse.ArgumentParser(prog="kills", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--layout",
        default="local",
        choices=tuple(LAYOUTS),
        help="agents: groups of two processes, each under a local agent (default: local)",
    )
    parser.add_argument("--kills", type=int, default=60, help="how many (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of what is hit and when (default: 1)")
    parser.add_argument(
        "--framework", default="jax", choices=("jax", "fake"), help="fake: to try the command"
    )
    options = parser.parse_args()
    # Where it is ignored, as in the background of a script, sessions would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    layout = LAYOUTS[options.layout]
    found = []
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        ground = Ground(Path(folder), options.framework, layout.options)
        ground.prepare()
        usual = undisturbed(ground)
        for hit in drawn(layout, options.kills, options.seed):
            found.append(ran(ground, hit, usual))
            wrong = "".join(f"\nunexpected: {one}" for one in surprises(found[-1]))
            what = f"{hit.signal.name}, {found[-1].what}: exit code {found[-1].exit_code}"
            print(what, wrong, ground.output if wrong else "", file=sys.stderr, flush=True)
    print("\n".join(table(options.layout, found)))
    return 1 if any(any(surprises(one)) for one in found) else 0


def table(layout: str, found: Sequence[Ran]) -> Iterator[str]:
    """What hits cost by what was hit, as Markdown."""
    yield "| layout | hit | times | lost nothing | lost one launch | ended | unexpected |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for what in sorted({one.what for one in found}):
        own = [one for one in found if one.what == what]
        lost = [one.lost for one in own]
        wrong = sum(any(surprises(one)) for one in own)
        numbers = (len(own), lost.count(0), lost.count(1), lost.count(None), wrong)
        yield f"| {layout} | {what} | {' | '.join(map(str, numbers))} |"


if __name__ == "__main__":
    sys.exit(main())
