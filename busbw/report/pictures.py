"""A Chart or a Heatmap as SVG or PNG, drawn by vl-convert, an extra that is imported only here.

An SVG has only elements and attributes of the lists below, whatever the picture's texts hold.
Colours are attributes for the light theme, and classes that a style sheet overrides: presentation
attributes lose against every rule, so that a reader without CSS still sees the light theme, where
`var()` in attributes would leave such a reader a black picture. The background is transparent.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import struct
import zlib
from collections.abc import Mapping
from types import ModuleType
from xml.etree import ElementTree as Tree

from .drawing import DARK, LIGHT, ROLES, Size, Theme, plain, specification
from .paths import shortened
from .picture import Picture

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
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_CLASS = "busbw-chart"
_DEFAULTS = {"opacity": "1", "stroke-width": "1"}


class PictureError(Exception):
    """Why there is no picture; the message is a sentence for the user."""


def svg(picture: Picture, size: Size, *, name: str = "", standalone: bool = True) -> str:
    """The picture as SVG, for screen readers an image with a title and a description.

    `name` is the prefix of its ids, unique within a page; by default it follows from the content.
    Without `standalone` there is no style sheet in it, and the page has `style_sheet`. Raises
    PictureError; ValueError for a `name` that is no id.
    """
    drawn: str = _vl_convert().vegalite_to_svg(
        specification(picture, size), show_warnings=False, allowed_base_urls=[]
    )
    name = name or f"chart-{hashlib.sha256(drawn.encode()).hexdigest()[:12]}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.60} is no id; accepted are letters, digits and hyphens")
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
    """The CSS of all charts of a page: a variable for each role, light and dark, and its classes.

    A page with a switch of its own sets the variables again.
    """
    classes = "".join(
        f".{_CLASS} .{kind}-{role}{{{kind}:var(--busbw-{role})}}"
        for role in ROLES
        for kind in ("fill", "stroke")
    )
    dark = f"@media (prefers-color-scheme:dark){{{variables(DARK)}}}"
    return f"{variables(LIGHT)}{dark}{classes}"


def variables(theme: Theme, where: str = f".{_CLASS}") -> str:
    """The CSS rule that gives charts, or the elements `where`, the colours of a theme."""
    values = ";".join(f"--busbw-{role}:{colour}" for role, colour in theme.roles.items())
    return f"{where}{{{values}}}"


def _vl_convert() -> ModuleType:
    try:
        return importlib.import_module("vl_convert")
    except ImportError as error:
        raise PictureError(MISSING) from error


def _texts(picture: Picture, name: str) -> list[Tree.Element]:
    """What screen readers say."""
    said = plain(picture.description or picture.subtitle or picture.title, 2000)
    texts = {"title": plain(picture.title), "desc": said}
    return [_element(tag, text, id=f"{name}-{tag}") for tag, text in texts.items()]


def _element(tag: str, text: str, **attributes: str) -> Tree.Element:
    made = Tree.Element(tag, attributes)
    made.text = text
    return made


def _kept(drawn: Tree.Element, roles: Mapping[str, str]) -> Tree.Element:
    """The element without namespaces and with nothing but what is in the lists.

    `roles` are those of colours, for its classes.
    """
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
