"""Build the documentation as a site: `tox -e site`, or `sphinx-build -c docs . FOLDER`.

The source folder is the repository's root, so that the links between README and pages hold on
GitHub and on the site. The sidebar is the contents page, docs/README.md.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

project = "busbw"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "studies/README.md",
]
html_theme = "furo"
html_title = "busbw"
html_copy_source = False
# GitHub makes an anchor of every heading; pages link to headings of these levels.
myst_heading_anchors = 4


def setup(app: Any) -> None:
    """Let Sphinx add the sidebar to the first page, which a server shows for the folder."""
    app.connect("source-read", _add_sidebar)
    app.connect("build-finished", _copy_first_page)


def _copy_first_page(app: Any, error: Exception | None) -> None:
    if error is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def _add_sidebar(app: Any, page: str, source: list[str]) -> None:
    if page == root_doc:
        contents = Path(app.srcdir, "docs", "README.md").read_text(encoding="utf-8")
        source[0] += "\n".join(_sidebar(contents))


def _sidebar(contents: str) -> Iterator[str]:
    """Yield the contents page, and the pages of each of its sections, for the sidebar alone."""
    yield "\n```{toctree}\n:hidden:\n\ndocs/README\n```"
    for section in contents.split("\n## ")[1:]:
        yield f"\n```{{toctree}}\n:hidden:\n:caption: {section.partition(chr(10))[0]}\n"
        for link in dict.fromkeys(re.findall(r"\]\(([./\w]+)\.md\)", section)):
            yield link.removeprefix("../") if link.startswith("../") else f"docs/{link}"
        yield "```"
