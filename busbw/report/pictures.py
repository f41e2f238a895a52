"""A Chart or a Heatmap as SVG or PNG, drawn by vl-convert, an extra that is imported only here.

An SVG has only elements and attributes of the lists below, whatever the picture's texts hold.
Colours are attributes for the light theme, and classes that a style sheet overrides: presentation
attributes lose against every rule, so that a reader without CSS still sees the light theme, where
`var()` in attributes would leave such a reader a black picture. The background is transparent.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from xml.etree import ElementTree as Tree

from .chart import Picture
from .drawing import specification
from .drawing.layout import Size, plain
from .drawing.palette import DARK, LIGHT, ROLES, Theme

MISSING = "pictures need vl-convert, which is not installed: python -m pip install 'busbw[page]'"
# What pictures hold, so that only pictures of ours are replaced.
_WRITER = "busbw figure"
_WRITTEN_BY = f'data-written-by="{_WRITER}"'
_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_PNG_IHDR_END = len(_PNG_HEAD) + 25

_SVG = "http://www.w3.org/2000/svg"
_ELEMENTS = {"svg", "g", "path", "line", "rect", "text", "tspan"}
_ATTRIBUTES = {
    *("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "width", "height"),
    *("viewBox", "fill", "stroke", "opacity", "fill-opacity", "stroke-opacity", "stroke-width"),
    *("stroke-dasharray", "stroke-linejoin", "stroke-linecap", "stroke-miterlimit"),
    *("font-family", "font-size", "font-weight", "text-anchor"),
}
_CLASS = "busbw-chart"
_DEFAULTS = {"opacity": "1", "stroke-width": "1"}


class PictureError(Exception):
    """Why there is no picture; the message is a sentence for the user."""


def svg(picture: Picture, size: Size, *, name: str = "", standalone: bool = True) -> str:
    """The picture as SVG, for screen readers an image with a title and a description.

    `name` is the prefix of its ids, unique within a page; by default it follows from the content.
    Without `standalone` there is no style sheet in it, and the page has `style_sheet`. Raises
    PictureError.
    """
    drawn: str = _vl_convert().vegalite_to_svg(
        specification(picture, size), show_warnings=False, allowed_base_urls=[]
    )
    name = name or f"chart-{hashlib.sha256(drawn.encode()).hexdigest()[:12]}"
    root = _kept(Tree.fromstring(drawn), {colour: role for role, colour in LIGHT.roles.items()})
    before = _texts(picture, name)
    if standalone:
        before.append(_element("style", style_sheet()))
    root[:0] = before
    root.attrib |= {
        "xmlns": _SVG,
        "class": _CLASS,
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "data-written-by": _WRITER,
    }
    return Tree.tostring(root, encoding="unicode") + "\n"


def png(picture: Picture, size: Size, *, scale: float = 2.0) -> bytes:
    """The picture as PNG of `scale` times as many pixels as `size` has. Raises PictureError."""
    drawn = specification(picture, size) | {"background": LIGHT.background}
    content: bytes = _vl_convert().vegalite_to_png(
        drawn, scale=scale, show_warnings=False, allowed_base_urls=[]
    )
    text = b"tEXtSoftware\x00" + _WRITER.encode()
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    return content[:_PNG_IHDR_END] + chunk + content[_PNG_IHDR_END:]


def is_picture(text: str) -> bool:
    """Whether the text of a file, decoded with replacements, begins as a picture of ours does."""
    head = text[:2000]
    is_svg = head.startswith("<svg ") and _WRITTEN_BY in head
    return is_svg or ("PNG" in head[:8] and f"tEXtSoftware\x00{_WRITER}" in head)


def style_sheet() -> str:
    """A page with a switch of its own sets the variables again."""
    classes = "".join(
        f".{_CLASS} .{kind}-{role}{{{kind}:var(--busbw-{role})}}"
        for role in ROLES
        for kind in ("fill", "stroke")
    )
    dark = f"@media (prefers-color-scheme:dark){{{variables(DARK)}}}"
    return f"{variables(LIGHT)}{dark}{classes}"


def variables(theme: Theme, where: str = f".{_CLASS}") -> str:
    values = ";".join(f"--busbw-{role}:{colour}" for role, colour in theme.roles.items())
    return f"{where}{{{values}}}"


def _vl_convert() -> ModuleType:
    try:
        return importlib.import_module("vl_convert")
    except ImportError as error:
        raise PictureError(MISSING) from error


def _texts(picture: Picture, name: str) -> list[Tree.Element]:
    said = plain(picture.description or picture.subtitle or picture.title, 2000)
    texts = {"title": plain(picture.title), "desc": said}
    return [_element(tag, text, id=f"{name}-{tag}") for tag, text in texts.items()]


def _element(tag: str, text: str, **attributes: str) -> Tree.Element:
    made = Tree.Element(tag, attributes)
    made.text = text
    return made


def _kept(drawn: Tree.Element, roles: Mapping[str, str]) -> Tree.Element:
    """Nothing but what is in the lists; `roles` are those of colours, for its classes."""
    attributes = {
        key: value
        for key, value in drawn.attrib.items()
        if key in _ATTRIBUTES and _DEFAULTS.get(key) != value
    }
    classes = _classes(attributes, roles)
    made = Tree.Element(_tag(drawn), attributes | ({"class": classes} if classes else {}))
    made.text = drawn.text
    inside = (_kept(one, roles) for one in drawn if _tag(one) in _ELEMENTS and not _is_empty(one))
    made.extend(shortened(one for one in inside if len(one) or one.text or one.tag != "g"))
    return made


def _tag(element: Tree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _is_empty(element: Tree.Element) -> bool:
    """Whether it is a frame that Vega draws without ink."""
    is_frame = element.get("class") in ("background", "foreground")
    ink = {element.get("fill"), element.get("stroke")} - {None, "none", "transparent"}
    return is_frame and not ink


def _classes(attributes: Mapping[str, str], roles: Mapping[str, str]) -> str:
    found = [
        f"{kind}-{roles[attributes[kind]]}"
        for kind in ("fill", "stroke")
        if attributes.get(kind) in roles
    ]
    return " ".join(found)


_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)"
_LINES = re.compile(rf"(?:[ML]{_NUMBER},{_NUMBER})+")
_STEP = re.compile(rf"([ML])({_NUMBER}),({_NUMBER})")
_CIRCLE = re.compile(
    rf"M(?P<r>{_NUMBER}),0A(?P=r),(?P=r),0,1,1,-(?P=r),0A(?P=r),(?P=r),0,1,1,(?P=r),0Z?"
)
_MOVED = re.compile(rf"translate\(({_NUMBER}),({_NUMBER})\)")
# A line of no length with round ends is a dot.
_DOT = "h0"

# A command of a path, M or L, and where it leads.
_Step = tuple[str, float, float]


def shortened(elements: Iterable[Tree.Element]) -> Iterator[Tree.Element]:
    for _, those in itertools.groupby(elements, _likeness):
        alike = list(those)
        one = _one(alike) if len(alike) > 1 else alike[0]
        if _LINES.fullmatch(one.get("d", "")):
            one.set("d", _relative(_steps(one.attrib["d"])))
        yield one


def _likeness(one: Tree.Element) -> object:
    """What neighbours share that can be one; of any other element it is of its own."""
    place = _MOVED.fullmatch(one.get("transform", ""))
    d = one.get("d", "")
    is_dot = _CIRCLE.fullmatch(d) and "stroke" not in one.attrib
    if one.tag != "path" or place is None or not (is_dot or _LINES.fullmatch(d)):
        return id(one)
    return sorted((key, value) for key, value in one.attrib.items() if key != "transform")


def _one(alike: Sequence[Tree.Element]) -> Tree.Element:
    first = alike[0]
    attributes = {key: value for key, value in first.attrib.items() if key != "transform"}
    places = [_place(one) for one in alike]
    circle = _CIRCLE.fullmatch(first.attrib["d"])
    if circle is None:
        return Tree.Element("path", attributes | {"d": _lines(first.attrib["d"], places)})
    steps = _relative([("M", x, y) for x, y in places])
    dots = "".join(f"{step}{_DOT}" for step in re.findall("[Mm][^Mm]+", steps))
    own = {"d": dots, "stroke-width": f"{2 * float(circle['r']):g}", "stroke-linecap": "round"}
    if "fill" in attributes:
        own["stroke"] = attributes.pop("fill")
    if "class" in attributes:
        own["class"] = attributes["class"].replace("fill-", "stroke-")
    return Tree.Element("path", attributes | own)


def _place(one: Tree.Element) -> tuple[float, float]:
    found = _MOVED.fullmatch(one.attrib["transform"])
    assert found is not None
    return float(found[1]), float(found[2])


def _lines(d: str, places: Sequence[tuple[float, float]]) -> str:
    steps = _steps(d)
    return _relative([(name, a + x, b + y) for x, y in places for name, a, b in steps])


def _steps(d: str) -> list[_Step]:
    return [(m[1], float(m[2]), float(m[3])) for m in _STEP.finditer(d)]


def _relative(steps: Sequence[_Step]) -> str:
    """Each step from where the last one led to, as it was rounded."""
    parts, x, y = [], 0.0, 0.0
    for at, (name, a, b) in enumerate(steps):
        dx, dy = round(a - x, 2), round(b - y, 2)
        x, y = x + dx, y + dy
        if name == "M":
            parts.append(f"{'m' if at else 'M'}{_text(dx)},{_text(dy)}")
        elif dx and dy:
            parts.append(f"l{_text(dx)},{_text(dy)}")
        else:
            parts.append(f"v{_text(dy)}" if dy else f"h{_text(dx)}")
    return "".join(parts)


def _text(number: float) -> str:
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
