"""The steps of workflows that make a page: of every night, and without it none fails."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NIGHTLY = ROOT / ".github" / "workflows" / "nightly.yml"
OF_INIT = ROOT / "busbw" / "commands" / "init" / "workflow.yml"
NIGHT = (NIGHTLY, "Read the history and make the page", "python", "report")
INIT = (OF_INIT, "Make the page", "busbw", "busbw")
PROBLEMS = ("", "history", "page", "page history", "no busbw")

# In place of busbw: it writes what it is asked for, but for the commands that $FAIL names.
_FAKE = """\
#!/bin/sh
if [ "$1" = -m ]; then shift 2; fi
echo "$@" >> "$RUNNER_TEMP/asked"
case " $FAIL " in *" $1 "*) echo "$1: an error" >&2; exit 2 ;; esac
if [ "$1" = history ]; then echo '{"machines": []}'; fi
for last; do :; done
if [ "$1" = page ]; then echo page > "$last"; fi
"""


def _script(path: Path, step: str) -> str:
    """What the step runs."""
    text = path.read_text(encoding="utf-8")
    found = re.search(
        rf"^      - name: {step}\n(?:        .*\n)*?        run: \|\n((?: {{10}}.*\n)+)",
        text,
        re.MULTILINE,
    )
    assert found is not None, step
    return textwrap.dedent(found[1])


def _ran(folder: Path, of: tuple[Path, str, str, str], fail: str) -> tuple[str, Mapping[str, str]]:
    """What the step says, as the runner starts it, and the files that it wrote."""
    path, step, program, report = of
    (folder / report).mkdir()
    (folder / report / "results.json").write_text("{}")
    if fail != "no busbw":
        (folder / "venv" / "bin").mkdir(parents=True)
        (folder / "venv" / "bin" / program).write_text(_FAKE)
        (folder / "venv" / "bin" / program).chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", _script(path, step)],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            "FAIL": fail,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    below = (one for one in folder.rglob("*") if one.is_file() and "venv" not in one.parts)
    return done.stdout, {one.relative_to(folder).as_posix(): one.read_text() for one in below}


@pytest.mark.parametrize("fail", PROBLEMS)
def test_whatever_a_page_fails_by_the_night_is_not_red_and_a_warning_says_so(
    fail: str, tmp_path: Path
) -> None:
    said, files = _ran(tmp_path, NIGHT, fail)
    no_history = fail in ("history", "page history", "no busbw")
    no_page = fail in ("page", "page history", "no busbw")
    assert ("::warning title=No history::" in said) == no_history
    assert ("::warning title=No page::" in said) == no_page
    assert ("report/history.json" in files) != no_history
    assert (files.get("report/busbw.html") == "page\n") != no_page
    assert files.get("output", "") == ("" if no_page else "made=true\n")


@pytest.mark.parametrize("fail", ["", "history"])
def test_the_page_has_the_history_if_there_is_one(fail: str, tmp_path: Path) -> None:
    _, files = _ran(tmp_path, NIGHT, fail)
    history, page = files["asked"].splitlines()
    assert history == f"history {tmp_path}/history --json"
    given = "" if fail else f" --history={tmp_path}/history"
    assert page == f"page {tmp_path}/report/results.json{given} -o {tmp_path}/report/busbw.html"


@pytest.mark.parametrize("fail", ["", "page", "no busbw"])
def test_the_workflow_of_init_has_a_page_or_a_warning(fail: str, tmp_path: Path) -> None:
    said, files = _ran(tmp_path, INIT, fail)
    assert ("::warning title=No page::" in said) == bool(fail)
    assert ("busbw/busbw.html" in files) != bool(fail)
    if not fail:
        path = f"{tmp_path}/busbw"
        assert files["asked"] == f"page {path}/results.json -o {path}/busbw.html\n"


@pytest.mark.parametrize(("path", "step"), [NIGHT[:2], INIT[:2]], ids=["nightly", "init"])
def test_a_page_is_made_of_a_night_that_failed_and_is_part_of_the_artifact(
    path: Path, step: str
) -> None:
    text = path.read_text(encoding="utf-8")
    begun = text[text.index(f"- name: {step}\n") :]
    assert "        if: always()\n" in begun[: begun.index("run: |")]
    assert text.index(f"- name: {step}\n") > text.index("- name: Measure and ")
    assert "uses: actions/upload-artifact@" in begun


def test_only_the_job_that_publishes_may_write_to_pages_and_it_runs_no_code_of_ours() -> None:
    text = NIGHTLY.read_text(encoding="utf-8")
    measure, publish = text.split("\n  publish:\n")
    for permission in ("pages: write", "id-token: write"):
        assert (measure.count(permission), publish.count(permission)) == (0, 1)
    for word in ("actions/checkout", "python", "contents:", "self-hosted", "secrets."):
        assert word not in publish
    assert "    runs-on: ubuntu-latest\n" in publish


def test_a_page_is_published_only_where_it_is_asked_for_and_was_made() -> None:
    text = NIGHTLY.read_text(encoding="utf-8")
    (condition,) = re.findall(r"  publish:\n.*\n.*\n    if: (.*)\n", text)
    assert condition == (
        "${{ !cancelled() && vars.BUSBW_PAGES == 'true' && needs.measure.outputs.page == 'true' }}"
    )
    assert "      page: ${{ steps.page.outputs.made }}\n" in text
    assert 'install ".[tpu,page]"' in text
