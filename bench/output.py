"""The file that a page is written to: looked at before minutes are spent on what stands in it."""

from __future__ import annotations

import argparse
from pathlib import Path

from busbw import writing


def check_output(parser: argparse.ArgumentParser, output: Path, title: str) -> None:
    """End with a usage error unless `output` may become the page that begins with `title`."""
    try:
        writing.check(output, what="such a page", ours=lambda text: text.startswith(title))
    except writing.Refused as error:
        parser.error(f"--output: {error}")
