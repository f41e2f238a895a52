"""`python -m tests.contract.browser.shots`: what it writes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.browser import chromium
from tests.contract.browser.test_checks import FINE

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(bool(chromium.not_asked()), reason=chromium.not_asked())
def test_each_page_has_a_folder_of_pictures(tmp_path: Path) -> None:
    pages = [tmp_path / f"{name}.html" for name in ("one", "two")]
    for page in pages:
        page.write_text(FINE.replace("Fine", page.stem))
    # In a process of its own: one has one driver of browsers.
    start = [sys.executable, "-m", "tests.contract.browser.shots", f"--into={tmp_path}"]
    done = subprocess.run([*start, *pages], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    sheets = ["print-1.png"] if shutil.which("pdftoppm") else []
    names = ["light.png", "dark.png", "400.png", "print.pdf", *sheets]
    wanted = [tmp_path / folder / name for folder in ("one", "two") for name in names]
    assert done.stdout.splitlines() == [f"wrote {path}" for path in wanted]
    light, dark, phone, printed, *_ = (path.read_bytes() for path in wanted)
    # The width of a PNG.
    assert [int.from_bytes(one[16:20], "big") for one in (light, dark, phone)] == [1280, 1280, 400]
    assert light != dark and printed.startswith(b"%PDF-")
