"""What was found, as a page of Markdown."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Iterator, Sequence

from .expected import surprises
from .ground import CASE_TIMEOUT_S, CASES, LAUNCHES, PAYLOADS
from .hasty import START_S
from .hits import Target
from .layout import SINGLE, Layout
from .session import STOPPED_S, Ran

# How many are usual.
MANY = 60

_TOP = (
    "What is lost, and what remains, when a process of a session is killed or stopped at a random "
    "moment."
)
_COMMAND = f"""\
pytest perf/ --frameworks=jax
--payloads={PAYLOADS[0]}:{PAYLOADS[-1]} --launches={LAUNCHES} --case-timeout={CASE_TIMEOUT_S:g}
--clock=dispatch --update-baselines=new --history=history"""
_ABOUT = f"""\
moment: {{targets}}. A session that got SIGSTOP was continued
{STOPPED_S:g} s later; any other process was not continued, so it had to be timed out and killed.
The
deadline for starts is {START_S:g} s here instead of 180 s. Workers ignore SIGINT once they have
started. *what* is the intended target: a worker that is faster than usual may already be in its
next phase.

*lost* counts launches of cases, of {CASES}; *left* lists what remained when the session was over:
processes, folders in TMPDIR, locks, baselines that are neither unchanged nor those of a complete
session, and a history that lost a line or has part of a session. The next session removes the
folder that a killed session leaves behind, which was tested too."""


# What each target is called in a sentence.
_WORDS = {
    Target.PROBE: "the probe",
    Target.MEASURING: "a worker",
    Target.AGENT: "an agent",
    Target.SESSION: "pytest itself",
}
_TITLES = {
    "single": "What a kill costs",
    "processes": "What a kill costs a group of processes",
    "agents": "What a kill costs a group of processes under agents",
}


def page(found: Sequence[Ran], *, about: str, seed: int, layout: Layout = SINGLE) -> Iterator[str]:
    """The lines; `about` says when and on which machine."""
    yield f"# {_TITLES[layout.name]}"
    yield ""
    yield _TOP
    yield ""
    options = [] if layout is SINGLE else [f"--layout={layout.name}"]
    options += [] if len(found) == MANY else [f"--kills={len(found)}"]
    command = " ".join(["tox -e kills", *(["--", *options] if options else [])])
    yield f"Written by `{command}`, {about}, seed {seed}."
    yield ""
    yield from _about(layout)
    yield ""
    yield "## In short"
    yield ""
    yield from _short(found)
    yield ""
    yield "## Every hit"
    yield ""
    yield "| | what | signal | after | exit code | took | lost | left | said |"
    yield "|---:|---|---|---:|---:|---:|---|---|---|"
    yield from (_row(ran) for ran in found)


def _about(layout: Layout) -> list[str]:
    """How it was done, wrapped."""
    options = "".join(f" {option}" for option in layout.options)
    *first, last = (words for target, words in _WORDS.items() if target in layout.targets)
    begin = f"In each row a whole session ran, `{_COMMAND}{options}`, and one of its processes"
    text = f"{begin} got one signal at a random\n{_ABOUT}".replace(
        "{targets}", f"{', '.join(first)}, or {last}"
    )
    paragraphs = text.split("\n\n")
    wrapped = [textwrap.fill(one, 99, break_on_hyphens=False) for one in paragraphs]
    return "\n\n".join(wrapped).splitlines()


def _short(found: Sequence[Ran]) -> Iterator[str]:
    yield "| what | hits | lost nothing | lost one launch of a case | ended | left | unexpected |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for target in Target:
        own = [ran for ran in found if ran.hit.target is target]
        if not own:
            continue
        whole = sum(ran.lost == 0 for ran in own)
        one = sum(ran.lost == 1 for ran in own)
        ended = sum(ran.lost is None for ran in own)
        left = sum(bool(ran.left or ran.processes) for ran in own)
        wrong = sum(bool(surprises(ran)) for ran in own)
        yield f"| {target.value} | {len(own)} | {whole} | {one} | {ended} | {left} | {wrong} |"


def _row(ran: Ran) -> str:
    hit = ran.hit
    cells = [
        str(hit.number),
        hit.target.value,
        signal.Signals(hit.signal).name,
        "had ended" if ran.at_s is None else f"{ran.at_s:.1f} s",
        "none" if ran.exit_code is None else str(ran.exit_code),
        f"{ran.seconds:.0f} s",
        _lost(ran),
        _left(ran),
        "<br>".join([*(f"**{one}**" for one in surprises(ran)), *map(_short_text, ran.said)]),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _lost(ran: Ran) -> str:
    if ran.lost is None:
        return "the session"
    return "nothing" if ran.lost == 0 else f"{ran.lost} of {CASES}"


def _left(ran: Ran) -> str:
    left = [*(f"process {one}" for one in ran.processes), *ran.left]
    if ran.folders and not ran.left:
        left.append("its folder, until the next session")
    return ", ".join(left) or "nothing"


def _short_text(line: str) -> str:
    return line if len(line) <= 160 else f"{line[:157]}..."
