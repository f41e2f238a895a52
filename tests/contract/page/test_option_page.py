"""--page: the session as an HTML page, with the history that it was appended to."""

from __future__ import annotations

import pytest

from tests.helpers.session_folder import SLOW, Folder
from tests.helpers.sweep import sweep


@pytest.fixture(autouse=True)
def libraries() -> None:
    """Skip the test if a library for pages is missing."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")


def _page(folder: Folder) -> str:
    return (folder.path / "page.html").read_text()


def test_the_option_page_writes_a_page_of_a_session_with_a_failed_case(folder: Folder) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 2048, "then": "kill"}])
    folder.run("--page=page.html", "--payloads=1K,2K", exit_code=1)
    text = _page(folder)
    assert "on Fake CPU, " in text
    assert ">FAILED</strong>" in text and "1 of 2 cases failed" in text


@pytest.mark.exhaustive
def test_the_option_page_shows_the_history_and_replaces_only_an_earlier_page(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    for sessions in ("1 session", "2 sessions"):
        folder.run("--page=page.html", "--history=history", "--payloads=1K", exit_code=0)
        assert f"{sessions} from " in _page(folder)
    (folder.path / "page.html").write_text("my own")
    ran = folder.run("--page=page.html", "--payloads=1K", exit_code=4)
    assert "--page: " in ran.sentence and "an earlier page" in ran.sentence
    assert _page(folder) == "my own"


@pytest.mark.parametrize("name", sweep(["altair", "jinja2", "vl_convert"]))
def test_a_missing_library_of_the_option_page_is_a_usage_error(folder: Folder, name: str) -> None:
    conftest = folder.path / "conftest.py"
    conftest.write_text(f"import sys\n\nsys.modules[{name!r}] = None\n" + conftest.read_text())
    assert (
        "--page: pages and figures need busbw[page]: python -m pip install 'busbw[page]'"
        in folder.run("--page=page.html", exit_code=4).sentence
    )


def test_a_session_has_no_verdict_if_an_exception_is_raised_while_its_page_is_written(
    folder: Folder,
) -> None:
    with (folder.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "from busbw.extensions.page import page\n\npage.render_html = lambda page: 1 / 0\n"
        )
    ran = folder.run("--page=page.html", exit_code=1)
    error = "--page: nothing was written: division by zero"
    assert "Traceback" not in ran.text
    assert f"NO_VERDICT: {error}; 1 case measured" in ran.text
    assert f"ERROR: {error}" in ran.text
