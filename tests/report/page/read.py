"""A page as a reader finds it: its tree of elements, texts and names. No test lives here."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})
# What a table's HTML may leave out.
OPTIONAL_END = frozenset({"td", "tr", "tbody"})


@dataclass
class Element:
    """An element with its attributes, its children in order, and its text without theirs."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list[Element]:
        """Every element below of these kinds, or of any, in the order of the document."""
        found = []
        for one in self.children:
            found += [one] if not tags or one.tag in tags else []
            found += one.all(*tags)
        return found

    @property
    def whole_text(self) -> str:
        """Its text and that of all below it, words apart by one space."""
        return " ".join(f"{self.text} {' '.join(one.whole_text for one in self.children)}".split())


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        while self.open[-1].tag in OPTIONAL_END and _ends(self.open[-1].tag, tag):
            self.open.pop()
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1].tag != tag:
            assert self.open[-1].tag in OPTIONAL_END, f"<{self.open[-1].tag}> closed by </{tag}>"
            self.open.pop()
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].text += data


def _ends(tag: str, following: str) -> bool:
    """Whether the open element ends where the following one begins."""
    return following in {"td": ("td", "th", "tr"), "tr": ("tr",)}.get(tag, ())


def read(text: str) -> Element:
    """The document; an AssertionError for elements that are closed in another order."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert [one.tag for one in parser.open] == ["document"]
    return parser.open[0]
