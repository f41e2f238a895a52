"""Studies: each answers one question by a calculation or by a run, and has a command and a page.

Here is their frame: a question from options, its sums, and a page or JSON with the answer. With
`--document` a page goes into the part of a file that the same command wrote, so that one file can
hold the pages of several studies. The command line finds a study by its being in this folder, as a
module or a folder that has `add_to`. A study uses the frame and `curve`, and every room but the
worker and other studies; nothing imports it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from busbw import files
from busbw.commands import (
    Commands,
    add_command,
    check_file,
    json_with,
    usage_error,
    write_file,
)
from busbw.session.option import Option, file_option

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, kw_only=True, slots=True)
class Study(Generic[Q, A]):
    """A command. `question` raises UsageError, `sums` CommandError; a page is lines of text.

    `document` is the answer for `--json`; an earlier one has `document_keys`, it or each of its
    rows. `reads` are files that no output may replace. One without `documented` is only printed.
    """

    name: str
    help: str
    description: str
    options: Sequence[Option]
    question: Callable[[argparse.Namespace], Q]
    sums: Callable[[Q], A]
    page: Callable[[Q, A], Iterable[str]]
    document: Callable[[Q, A], object] | None = None
    document_keys: Sequence[str] = ()
    reads: Callable[[argparse.Namespace], Iterable[Path]] = lambda options: ()
    documented: bool = True
    add_arguments: Callable[[argparse.ArgumentParser], object] = lambda parser: None

    def add_to(self, commands: Commands) -> None:
        options = [
            *self.options,
            *([_DOCUMENT] if self.documented else []),
            *([_JSON] if self.document is not None else []),
        ]
        parser = add_command(
            commands, self.name, self.run, *options, help=self.help, description=self.description
        )
        self.add_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Print or write the answer; 0, or 1 if it cannot be written. Raises CommandError."""
        path: Path | None = options.document if self.documented else None
        what = f"a page of busbw {self.name}"
        check_file("--document", path, what, self._is_ours, self.reads(options))
        question = self.question(options)
        answer = self.sums(question)
        if self.document is not None and options.json:
            text = json.dumps(self.document(question, answer), indent=1) + "\n"
        else:
            text = "\n".join(self.page(question, answer)) + "\n"
            text = text if path is None else self._placed(path, text)
        if path is None:
            print(text, end="")
            return 0
        return write_file(text, path, f"busbw {self.name}: --document: ")

    @property
    def _marks(self) -> tuple[str, str]:
        """The lines around a page."""
        written = f"<!-- Written by `python -m busbw {self.name}`, not by hand. -->"
        return written, f"<!-- End of busbw {self.name}. -->"

    def _is_ours(self, text: str) -> bool:
        begin, end = self._marks
        is_document = bool(self.document_keys) and json_with(*self.document_keys)(text)
        return is_document or end in text.partition(begin)[2]

    def _placed(self, path: Path, page: str) -> str:
        """The file with the page in the place of the earlier one; the page alone in a new file."""
        begin, end = self._marks
        with usage_error(files.InputError, ValueError, where=f"{path}: "):
            earlier = files.content(path).decode() if path.is_file() else ""
        before, _, rest = earlier.partition(begin)
        _, found, after = rest.partition(end)
        written = f"{begin}\n\n{page}\n{end}"
        return f"{before}{written}{after}" if found else f"{written}\n"


_DOCUMENT = file_option("document", "Write the page to FILE instead of standard output")
_JSON = Option(name="json", flag=True, help="Print JSON instead of a page")


def framework_option(frameworks: Sequence[str], help: str) -> Option:
    """`--framework`, with the first of `frameworks` as its default."""
    return Option(
        name="framework",
        choices=tuple(frameworks),
        default=frameworks[0],
        help=f"{help}, to try out the command",
    )


def found(named: str = "") -> list[ModuleType]:
    """Every study, or the one that is named."""
    here = [
        importlib.import_module(f"{__name__}.{one.name}")
        for one in pkgutil.iter_modules(__path__)
        if named in ("", one.name)
    ]
    return [one for one in here if hasattr(one, "add_to")]
