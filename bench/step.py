"""Where the all-reduce inside a training step loses time against the bare one, piece by piece.

`python -m bench.step`. On the CPU the all-reduce takes longer inside a step than alone, at payloads
that fit into a cache. The variants of `bench.variants` are in between: each adds one more part of a
step. They take turns in random order, and each turn records the all-reduce's own time from the
profiler on the rank that arrives last, which does not wait. Ratios are to the bare chain of the
same turn. The position of the buffers in memory differs between processes and is fixed for the
lifetime of one, so there are several processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.output import check_output
from busbw import writing
from busbw.model import MIB, payload_text
from busbw.studies.prediction import AGREEMENT

TITLE = "# The all-reduce inside a training step, piece by piece"
PAYLOADS = "1M,4M,16M"
RANKS = (2, 4)
LAUNCHES = 5
TURNS = 3
BARE, STEP = "bare", "step"

# Seconds of each turn by variant, the bare one first.
Found = Mapping[str, Sequence[float]]

_WIDTH = 100
_NAMES = {
    "fresh": "freshly written",
    "touched": "as many bytes as the step between",
    "product": "that, written by a product",
    "busy": "a rank late, computing",
    "idle": "a rank late, asleep",
    STEP: "the step",
}
_ABOUT = """
Which part of a training step makes its all-reduce slower than a bare one, on the CPU.

The figures are the all-reduce's own time from the profiler, on the rank that reaches it last, as a
multiple of the bare chain's time in the same turn: the median over {turns} turns, in random order,
of each of {launches} processes, with minimum and maximum. *bare* is busbw's chain, in which each
sum overwrites the last but one; if its own times are far apart, processes differ by where their
buffers are in memory. *freshly written*: before each all-reduce the operand is written from another
array. *as many bytes as the step between*: the same, and weights and rows are read, sum and weights
read and weights written, as in a step without its products. *written by a product*: the same bytes,
but the operand is the product that gives the gradient; whatever waits for a product runs on a
thread of the pool, and may keep it from others. *a rank late*: freshly written, and the first rank
arrives about two all-reduces after the others; meanwhile it computes, or it sleeps and leaves the
cores to the others. *the step* is the dense step that `pytest perf/ -m training` measures.
"""


def main() -> None:
    """Processes for each number of ranks; a page, also into a file."""
    parser = argparse.ArgumentParser(prog="bench.step", description=__doc__)
    parser.add_argument("--payloads", default=PAYLOADS, help=f"default: {PAYLOADS}")
    parser.add_argument("--launches", type=int, default=LAUNCHES, help=f"default: {LAUNCHES}")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each, default: {TURNS}")
    parser.add_argument("--output", type=Path, help="write the page there, too")
    options = parser.parse_args()
    if options.output is not None:
        check_output(parser, options.output, TITLE)
    # Ranks in turn, so that the machine's state affects them alike.
    launches = [
        {ranks: _process(ranks, options.payloads, options.turns) for ranks in RANKS}
        for _ in range(options.launches)
    ]
    found = {ranks: together([launch[ranks] for launch in launches]) for ranks in RANKS}
    text = "\n".join(page(found, options.launches, options.turns)) + "\n"
    print(text, end="")
    if options.output is not None:
        writing.write(options.output, text)


def _process(ranks: int, payloads: str, turns: int) -> dict[int, Found]:
    """What one process measured, by payload bytes."""
    print(f"step: {ranks} ranks", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "bench.turns", f"--ranks={ranks}"]
    command += [f"--payloads={payloads}", f"--turns={turns}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {int(size): variants for size, variants in found.items()}


def together(launches: Sequence[Mapping[int, Found]]) -> dict[int, Found]:
    """The turns of all processes, by payload bytes and variant."""
    return {
        size: {
            name: [second for launch in launches for second in launch[size][name]]
            for name in variants
        }
        for size, variants in launches[0].items()
    }


def page(found: Mapping[int, Mapping[int, Found]], launches: int, turns: int) -> Iterator[str]:
    """Markdown: by ranks, then payload bytes, a table of ratios, and what they say."""
    yield TITLE
    yield ""
    yield "Written by `python -m bench.step`."
    yield ""
    yield from _ABOUT.format(launches=launches, turns=turns).splitlines()
    for ranks, of_payload in found.items():
        names = [name for name in _NAMES if all(name in one for one in of_payload.values())]
        yield ""
        yield f"## jax, {ranks} ranks"
        yield ""
        yield f"| payload | bare, us | {' | '.join(_NAMES[name] for name in names)} |"
        yield "|---" * (2 + len(names)) + "|"
        for size, variants in of_payload.items():
            yield _row(size, variants, names)
        yield ""
        for size, variants in of_payload.items():
            yield from _item(f"At {payload_text(size)} {said(variants)}.")


def ratios(variants: Found, name: str) -> list[float]:
    """A variant's time over the bare one's, by turn."""
    return [one / bare for one, bare in zip(variants[name], variants[BARE], strict=True)]


def said(variants: Found) -> str:
    """What makes up how much of the difference between the step and the bare chain, in words.

    What lies within what predictions may be off is not explained.
    """
    more = statistics.median(ratios(variants, STEP)) - 1
    if abs(more) <= AGREEMENT:
        return (
            f"the step's all-reduce takes {1 + more:.2f} times the bare one: within "
            f"{100 * AGREEMENT:.0f} %, which needs no explanation"
        )
    shares = {
        name: (statistics.median(ratios(variants, name)) - 1) / more
        for name in _NAMES
        if name != STEP
    }
    shown = ", ".join(f"{_NAMES[name]} {100 * share:.0f} %" for name, share in shares.items())
    return (
        f"the step's all-reduce takes {1 + more:.2f} times the bare one. Share of the extra "
        f"time in each variant: {shown}"
    )


def _row(size: int, variants: Found, names: Sequence[str]) -> str:
    bare_us = [1e6 * second for second in variants[BARE]]
    cells = [payload_text(size), _spread(bare_us, ".4g")]
    cells += [_spread(ratios(variants, name), ".2f") for name in names]
    return f"| {' | '.join(cells)} |"


def _spread(found: Sequence[float], form: str) -> str:
    return f"{statistics.median(found):{form}} ({min(found):{form}} to {max(found):{form}})"


def _item(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def iterations_of(payload_bytes: int) -> int:
    """As many all-reduces in a call that a turn takes some tens of milliseconds."""
    return 32 if payload_bytes <= MIB else 16 if payload_bytes <= 16 * MIB else 8


if __name__ == "__main__":
    main()
