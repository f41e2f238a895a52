"""What is expected of every page, each as a function that says what is wrong with an open one."""

from __future__ import annotations

import io
import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from .chromium import Opened

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


def requests(found: Opened) -> list[str]:
    """What the page asks for beside its own file; data within the page are no request."""
    found.settle()
    others = [one for one in found.requests if one.partition("#")[0] != found.address]
    return [one for one in others if not one.startswith("data:")]


def said(found: Opened) -> list[str]:
    """Errors, warnings and dialogs."""
    found.settle()
    return list(found.said)


def active(found: Opened) -> list[str]:
    """Whatever could run a script or load something."""
    return list(found.measure("active"))


def too_wide(found: Opened) -> list[str]:
    """By how much the document is wider than the window, and what reaches beyond its edge."""
    wide, window = found.measure("width")
    if wide <= window:
        return []
    return [f"{wide} px wide in a window of {window} px", *found.measure("beyond")]


def too_small(found: Opened) -> list[str]:
    """Texts that are too small to be read, folded ones too."""
    found.unfold()
    sizes = found.measure("textSizes")
    return [f"{size:.1f} px: {name}" for size, name in sizes if size < LEAST_PX - 0.05]


def headings(found: Opened) -> list[str]:
    """A page that does not begin with its only h1, levels that are left out, empty headings."""
    read = found.measure("headings")
    levels = [level for level, _ in read]
    wrong = [f"an empty h{level}" for level, text in read if not text]
    if levels[:1] != [1] or levels.count(1) != 1:
        wrong.append(f"{levels.count(1)} h1, and the first heading is {read[:1]}")
    steps = itertools.pairwise(read)
    return wrong + [f"h{a[0]} {a[1]!r}, then h{b[0]} {b[1]!r}" for a, b in steps if b[0] > a[0] + 1]


def tables(found: Opened) -> list[str]:
    """Tables without a caption, headers without a scope, rows of another width."""
    read = found.measure("tables")
    return [f"{one['caption']!r}: {problem}" for one in read for problem in _of_table(one)]


def _of_table(table: dict[str, Any]) -> Iterator[str]:
    if not table["caption"]:
        yield "no caption"
    if not table["heads"]:
        yield "no header"
    yield from (f"no scope: {one}" for one in table["unscoped"])
    yield from (f"row {row} has another width" for row in table["uneven"])


def pictures(found: Opened) -> list[str]:
    """Pictures that have no name and are not left out for screen readers."""
    return list(found.measure("nameless"))


def references(found: Opened) -> list[str]:
    """Links that lead nowhere, ids that are not unique."""
    return list(found.measure("broken"))


def themes(light: Opened, dark: Opened) -> list[str]:
    """Colours that do not follow what the reader prefers."""
    a, b = light.measure("colours"), dark.measure("colours")
    wrong = []
    if not _luminance(a["background"]) > 0.5 > _luminance(a["text"]):
        wrong.append(f"light: {a['text']} on {a['background']}")
    if not _luminance(b["background"]) < 0.2 < _luminance(b["text"]):
        wrong.append(f"dark: {b['text']} on {b['background']}")
    if _luminance(b["canvas"]) > 0.2:
        wrong.append(f"dark: the browser's own parts are {b['canvas']}; see color-scheme")
    same = set(a["pictures"]) & set(b["pictures"])
    return wrong + [f"texts of pictures are {one} in both themes" for one in sorted(same)]


def faint(found: Opened) -> list[str]:
    """Texts in pictures with too little contrast, which axe does not look at."""
    found.unfold()
    best: dict[tuple[object, ...], tuple[float, str]] = {}
    for one in found.measure("pictureTexts"):
        contrast = _contrast(one["fill"], one["opacity"], one["behind"])
        place = (one["text"], *map(round, one["box"]))
        best[place] = max(best.get(place, (0.0, "")), (contrast, one["name"]))
    return [f"{one:.2f}: {name}" for one, name in best.values() if one < LEAST_CONTRAST]


def colliding(found: Opened) -> list[str]:
    """Texts of a picture of which one covers another."""
    found.unfold()
    texts = [one for one in found.measure("pictureTexts") if one["text"].strip()]
    pairs = itertools.combinations(texts, 2)
    return [f"{a['text']!r} and {b['text']!r}" for a, b in pairs if _collide(a, b)]


def _collide(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether letters meet: the box of a text has room above and below them."""
    if a["picture"] != b["picture"] or a["text"] == b["text"]:
        return False
    wide, high = (
        min(a["box"][at + 2], b["box"][at + 2]) - max(a["box"][at], b["box"][at]) for at in (0, 1)
    )
    sizes = [min(one["box"][2] - one["box"][0], one["box"][3] - one["box"][1]) for one in (a, b)]
    return bool(wide > LEAST_OVERLAP * min(sizes) and high > LEAST_OVERLAP * min(sizes))


def violations(found: Opened) -> list[str]:
    """What axe-core objects to, with all that a click opens.

    Of long tables it reads the first rows, which the others are like: all of a year take a minute.
    """
    from axe_playwright_python.sync_playwright import Axe

    found.unfold()
    found.measure("shorten", MOST_ROWS)
    options = {"runOnly": {"type": "tag", "values": list(WCAG)}, "resultTypes": ["violations"]}
    response: dict[str, Any] = Axe().run(found.page, options=options).response
    return [
        f"{one['id']}: {node['html'][:100]}: {node['failureSummary']}"
        for one in response["violations"]
        for node in one["nodes"]
    ]


def folded_in_print(found: Opened) -> list[str]:
    """What is folded on the screen and hidden in print."""
    return [text for text, is_seen in found.measure("folded") if text and not is_seen]


def of_pdf(found: Opened) -> list[str]:
    """What is folded on the screen and not in the PDF, and printed texts that are too small.

    Chromium makes a page smaller until its widest part fits on a sheet.
    """
    from pypdf import PdfReader

    found.page.emulate_media(media="print")
    sheets = PdfReader(io.BytesIO(found.pdf())).pages
    small: list[str] = []
    printed = "".join(_text(sheet, small) for sheet in sheets)
    folded = dict.fromkeys(text for text, _ in found.measure("folded"))
    return small + [f"not printed: {text}" for text in folded if _solid(text) not in printed]


def _text(sheet: Any, small: list[str]) -> str:
    """The sheet's text without spaces; what is too small is added to `small`."""

    def look(text: str, matrix: Sequence[float], of_text: Sequence[float], *font: Any) -> None:
        scale = math.sqrt(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]))
        points = font[1] * abs(of_text[3]) * scale
        if text.strip() and points < LEAST_POINTS:
            small.append(f"{points:.1f} pt: {text.strip()[:40]}")

    return _solid(sheet.extract_text(visitor_text=look))


def _solid(text: str) -> str:
    """Without spaces, and letters that are printed as one again by themselves."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


def _rgb(colour: str) -> tuple[float, float, float]:
    """Of ``rgb(1, 2, 3)``, each from 0 to 1. Raises ValueError for another form."""
    found = re.fullmatch(r"rgba?\((\d+), (\d+), (\d+)(?:, 1)?\)", colour)
    if found is None:
        raise ValueError(f"{colour!r} is no opaque rgb(...)")
    red, green, blue = (int(one) / 255 for one in found.groups())
    return red, green, blue


def _luminance(colour: str) -> float:
    return _relative_luminance(_rgb(colour))


def _relative_luminance(rgb: tuple[float, float, float]) -> float:
    """As WCAG defines it."""
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in rgb
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(fill: str, opacity: float, behind: str) -> float:
    """As WCAG defines it, of a colour that lets some of what is behind it through."""
    below = _rgb(behind)
    red, green, blue = (opacity * a + (1 - opacity) * b for a, b in zip(_rgb(fill), below))
    a, b = sorted(map(_relative_luminance, ((red, green, blue), below)))
    return (b + 0.05) / (a + 0.05)
