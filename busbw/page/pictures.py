"""A Chart or a Heatmap as SVG or PNG, drawn by vl-convert, an extra that is imported only here.

Colours are attributes for the light theme, which a style sheet overrides by their values: a reader
without CSS still sees the light theme. A file has a background of its own, because it may be shown
on a page with another theme; within a page of busbw the background is the page's.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import struct
import zlib
from html import escape
from typing import Any

from .chart import Picture, described
from .palette import DARK, LIGHT, Theme
from .vega import Spec, plain, specification

MISSING = "pictures need vl-convert, which is not installed: python -m pip install 'busbw[page]'"
WIDTH = 720
# What pictures hold, so that only pictures of ours are replaced.
_WRITER = "busbw figure"
_WRITTEN_BY = f'data-written-by="{_WRITER}"'
_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_PNG_IHDR_END = len(_PNG_HEAD) + 25
_CLASS = "busbw-chart"
_BACKGROUND = f".{_CLASS}{{background:var(--busbw-background)}}"


class PictureError(Exception):
    """Why there is no picture; the message is a sentence for the user."""


def svg(picture: Picture, width: int = WIDTH, *, name: str = "", standalone: bool = True) -> str:
    """The picture as SVG, for screen readers an image with a title and a description.

    `name` is the prefix of its ids, unique within a page; by default it follows from the content.
    Without `standalone` there is no style sheet in it, and the page has `style_sheet`. Raises
    PictureError.
    """
    drawn: str = _drawn("svg", specification(picture, width))
    name = name or f"chart-{hashlib.sha256(drawn.encode()).hexdigest()[:12]}"
    head, _, body = drawn.partition(">")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    assert box is not None
    size = f'width="{box[1]}" height="{box[2]}" viewBox="0 0 {box[1]} {box[2]}"'
    said = plain(described(picture), 2000)
    texts = f'<title id="{name}-title">{escape(plain(picture.title), quote=False)}</title>'
    texts += f'<desc id="{name}-desc">{escape(said, quote=False)}</desc>'
    texts += f"<style>{style_sheet()}{_BACKGROUND}</style>" if standalone else ""
    body = _TAG.sub(lambda one: _shortened(one[0], name), body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{_CLASS}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" {_WRITTEN_BY} {size}>{texts}{body}\n'
    )


_TAG = re.compile(r"<[^>]*>")
_FRAME = re.compile(r'<path class="(?:fore|back)ground"')
_UNUSED = re.compile(r' (?:aria-[a-z]+|pointer-events|role)="[^"]*"')
_DIGITS = re.compile(r"(\d\.\d)\d+")
_CLIP = re.compile(r'( id="|url\(#)(?=clip)')


def _shortened(tag: str, name: str) -> str:
    """Without frames that have no ink, what is said of parts of an image, and digits nobody sees.

    Ids of clips begin with `name`: each picture of a page has its own.
    """
    if _FRAME.match(tag):
        return ""
    return _CLIP.sub(rf"\1{name}-", _DIGITS.sub(r"\1", _UNUSED.sub("", tag)))


def png(picture: Picture, width: int = WIDTH, *, scale: float = 2.0) -> bytes:
    """The picture as PNG of `scale` times as many pixels. Raises PictureError."""
    drawn = specification(picture, width) | {"background": LIGHT["background"]}
    content: bytes = _drawn("png", drawn, scale=scale)
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
    colours = "".join(
        f'.{_CLASS} [{kind}="{colour}"]{{{kind}:var(--busbw-{role})}}'
        for role, colour in LIGHT.items()
        for kind in ("fill", "stroke")
    )
    dark = f"@media (prefers-color-scheme:dark){{{variables(DARK)}}}"
    return f"{variables(LIGHT)}{dark}{colours}"


def variables(theme: Theme, where: str = f".{_CLASS}") -> str:
    values = ";".join(f"--busbw-{role}:{colour}" for role, colour in theme.items())
    return f"{where}{{{values}}}"


def _drawn(form: str, spec: Spec, **options: float) -> Any:
    try:
        draw = getattr(importlib.import_module("vl_convert"), f"vegalite_to_{form}")
        return draw(spec, show_warnings=False, allowed_base_urls=[], **options)
    except ImportError as error:
        raise PictureError(MISSING) from error
    except ValueError as error:
        raise PictureError(f"vl-convert cannot draw this picture: {error}") from error
