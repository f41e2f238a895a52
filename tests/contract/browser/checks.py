"""What is expected of every page: each check says what is wrong with an open one.

They leave its size and theme as they are. Those that unfold or shorten it come last.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tests.contract.browser.chromium import Opened

# WCAG 2.0, 2.1 and 2.2, levels A and AA. Every rule of them holds: none is excepted.
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa")
# What can still be read.
LEAST_PX = 9.0
LEAST_POINTS = 6.0
# Of WCAG, for texts of ordinary size.
LEAST_CONTRAST = 4.5
MOST_ROWS = 12
# Of the height of a line.
LEAST_OVERLAP = 0.3
# A sheet of A4 within its margins.
SHEET_PX = 717


def requests(view: Opened) -> list[str]:
    """List what the page asks for beside its own file; data within the page are no request."""
    view.settle()
    others = [address for address in view.requests if address.partition("#")[0] != view.address]
    return [address for address in others if not address.startswith("data:")]


def messages(view: Opened) -> list[str]:
    """Errors, warnings and dialogs."""
    view.settle()
    return list(view.messages)


def too_wide(view: Opened) -> list[str]:
    """List what is wider than the window, folded and unfolded."""
    folded = view.measure("tooWide")
    view.measure("unfold")
    return [*folded, *view.measure("tooWide")]


def too_small(view: Opened) -> list[str]:
    """Texts that are too small to be read, folded ones too."""
    view.measure("unfold")
    return list(view.measure("tooSmall", LEAST_PX - 0.05))


def themes(view: Opened) -> list[str]:
    """Colours that do not follow what the reader prefers."""
    light, dark = (_colours(view, theme) for theme in ("light", "dark"))
    faults = []
    if not _luminance(light["background"]) > 0.5 > _luminance(light["text"]):
        faults.append(f"light: {light['text']} on {light['background']}")
    if not _luminance(dark["background"]) < 0.2 < _luminance(dark["text"]):
        faults.append(f"dark: {dark['text']} on {dark['background']}")
    if _luminance(dark["canvas"]) > 0.2:
        faults.append(f"dark: the browser's own parts are {dark['canvas']}; see color-scheme")
    same = set(light["pictures"]) & set(dark["pictures"])
    return faults + [f"texts of pictures are {kind} in both themes" for kind in sorted(same)]


def _colours(view: Opened, theme: str) -> Any:
    with view.seen_as(color_scheme=theme):
        return view.measure("colours")


def faint(view: Opened) -> list[str]:
    """Texts in pictures with too little contrast, which axe does not look at."""
    view.measure("unfold")
    best: dict[tuple[object, ...], tuple[float, str]] = {}
    for text in view.measure("pictureTexts"):
        contrast = _contrast(text["fill"], text["opacity"], text["behind"])
        place = (text["text"], *map(round, text["box"]))
        best[place] = max(best.get(place, (0.0, "")), (contrast, text["name"]))
    return [
        f"{contrast:.2f}: {name}" for contrast, name in best.values() if contrast < LEAST_CONTRAST
    ]


def colliding(view: Opened) -> list[str]:
    """Texts of a picture of which one covers another."""
    view.measure("unfold")
    texts = [text for text in view.measure("pictureTexts") if text["text"].strip()]
    pairs = itertools.combinations(texts, 2)
    return [f"{a['text']!r} and {b['text']!r}" for a, b in pairs if _collide(a, b)]


def _collide(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Return whether letters meet: the box of a text has room above and below them."""
    if a["picture"] != b["picture"] or a["text"] == b["text"]:
        return False
    (left, top, right, bottom), other = a["box"], b["box"]
    wide = min(right, other[2]) - max(left, other[0])
    high = min(bottom, other[3]) - max(top, other[1])
    line = min(right - left, bottom - top, other[2] - other[0], other[3] - other[1])
    return bool(min(wide, high) > LEAST_OVERLAP * line)


def violations(view: Opened) -> list[str]:
    """List what axe-core objects to, with all that a click opens.

    Of long tables it reads the first rows, which the others are like: all of a year take a minute.
    """
    from axe_playwright_python.sync_playwright import Axe

    view.measure("unfold")
    view.measure("shorten", MOST_ROWS)
    options = {"runOnly": {"type": "tag", "values": list(WCAG)}, "resultTypes": ["violations"]}
    response: dict[str, Any] = Axe().run(view.page, options=options).response
    return [
        f"{violation['id']}: {node['html'][:100]}: {node['failureSummary']}"
        for violation in response["violations"]
        for node in violation["nodes"]
    ]


def printed(view: Opened) -> list[str]:
    """List what is folded, hidden or missing in print, too wide or too small.

    Chromium makes a page smaller until its widest part fits on a sheet.
    """
    from pypdf import PdfReader

    with view.seen_as(media="print", width=SHEET_PX):
        folded = view.measure("folded")
        faults = list(view.measure("tooWide"))
        sheets = PdfReader(io.BytesIO(view.pdf())).pages
    faults += [f"hidden: {text}" for text, is_seen in folded if text and not is_seen]
    words = "".join(_text(sheet, faults) for sheet in sheets)
    texts = dict.fromkeys(text for text, _ in folded)
    return faults + [f"not printed: {text}" for text in texts if _solid(text) not in words]


def _text(sheet: Any, faults: list[str]) -> str:
    """Return the sheet's text without spaces; add what is too small to `wrong`."""

    def look(text: str, matrix: Sequence[float], of_text: Sequence[float], *font: Any) -> None:
        scale = math.sqrt(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]))
        points = font[1] * abs(of_text[3]) * scale
        if text.strip() and points < LEAST_POINTS:
            faults.append(f"{points:.1f} pt: {text.strip()[:40]}")

    return _solid(sheet.extract_text(visitor_text=look))


def _solid(text: str) -> str:
    """Remove spaces, and separate letters that are printed as one."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


def _rgb(colour: str) -> list[float]:
    """Read ``rgb(1, 2, 3)``, each from 0 to 1. Raises ValueError for another form."""
    match = re.fullmatch(r"rgba?\((\d+), (\d+), (\d+)(?:, 1)?\)", colour)
    if match is None:
        raise ValueError(f"{colour!r} is no opaque rgb(...)")
    return [int(share) / 255 for share in match.groups()]


def _luminance(colour: str) -> float:
    return _light(_rgb(colour))


def _light(parts: Iterable[float]) -> float:
    """Return the relative luminance of red, green and blue, as WCAG defines it."""
    linear = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def _contrast(fill: str, opacity: float, behind: str) -> float:
    """Return the contrast of a colour that lets some of what is behind it through."""
    below = _rgb(behind)
    mixed = [opacity * a + (1 - opacity) * b for a, b in zip(_rgb(fill), below)]
    dark, light = sorted(map(_light, (mixed, below)))
    return (light + 0.05) / (dark + 0.05)


CHECKS: Mapping[str, Callable[[Opened], list[str]]] = {
    "requests": requests,
    "messages": messages,
    # What could run a script; headings and tables; pictures without a name; links to nowhere.
    **{
        name: partial(Opened.measure, name=name)
        for name in ("active", "headings", "tables", "nameless", "broken")
    },
    "themes": themes,
    "printed": printed,
    "too_wide": too_wide,
    "too_small": too_small,
    "faint": faint,
    "colliding": colliding,
    "violations": violations,
}
# Those of which a window's width changes what they say.
OF_WIDTH = ("too_wide", "too_small", "faint", "colliding", "violations")


def problems(view: Opened, names: Iterable[str] = CHECKS) -> Iterator[str]:
    for name in names:
        yield from (f"{name}: {problem}" for problem in CHECKS[name](view))
