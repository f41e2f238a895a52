"""Sessions and their history as one HTML page that loads nothing and runs no script.

`content` has the parts of a page as values, `session`, `compiled`, `history` decide what a page
says, `html` how it is written. Judges nothing and reads no file but its own template.
"""

from .content import Figure, Page, Section
from .html import html, is_page, missing_for_pages
from .whole import page

__all__ = ["Figure", "Page", "Section", "html", "is_page", "missing_for_pages", "page"]
