"""What was found, as a page of Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from .expected import surprises
from .faults import Kind
from .ground import CASES
from .hits import Target
from .layout import SINGLE, Layout
from .prose import PROSES
from .session import Ran


def page(found: Sequence[Ran], *, about: str, seed: int, layout: Layout = SINGLE) -> Iterator[str]:
    """The lines; `about` says when and on which machine."""
    prose = PROSES[layout.name]
    yield f"# {prose.title}"
    yield ""
    yield prose.top
    yield ""
    options = [] if layout is SINGLE else [f"--layout={layout.name}"]
    options += [] if len(found) == layout.many else [f"--kills={len(found)}"]
    command = " ".join(["tox -e kills", *(["--", *options] if options else [])])
    yield f"Written by `{command}`, {about}, seed {seed}."
    yield ""
    shown = "".join(f" {option}" for option in layout.options)
    for paragraph in prose.paragraphs:
        text = paragraph.replace("{options}", shown)
        yield from textwrap.wrap(text, 99, break_on_hyphens=False)
        yield ""
    yield "## In short"
    yield ""
    yield from _short(found)
    yield ""
    yield "## Every hit"
    yield ""
    yield f"| | what | {prose.how} | after | exit code | took | lost | left | said |"
    yield "|---:|---|---|---:|---:|---:|---|---|---|"
    yield from (_row(ran) for ran in found)


def _short(found: Sequence[Ran]) -> Iterator[str]:
    yield "| what | hits | lost nothing | lost one launch of a case | ended | left | unexpected |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    there = {ran.hit.what for ran in found}
    for what in dict.fromkeys(one.value for one in (*Target, *Kind) if one.value in there):
        own = [ran for ran in found if ran.hit.what == what]
        whole = sum(ran.lost == 0 for ran in own)
        one = sum(ran.lost == 1 and not ran.has_given_up for ran in own)
        ended = sum(ran.lost is None or ran.has_given_up for ran in own)
        left = sum(bool(ran.left or ran.processes) for ran in own)
        wrong = sum(bool(surprises(ran)) for ran in own)
        yield f"| {what} | {len(own)} | {whole} | {one} | {ended} | {left} | {wrong} |"


def _row(ran: Ran) -> str:
    hit = ran.hit
    cells = [
        str(hit.number),
        hit.what,
        hit.how,
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
