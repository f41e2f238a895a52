"""The gate and the workflows: pinned, with the least permissions, and nothing hides a failure."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.workers import write_program

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GATE = (
    *(path for path in (ROOT / ".github").rglob("*") if path.is_file() and path.suffix != ".pyc"),
    ROOT / ".ci" / "run",
)

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def _test_command() -> str:
    """Return the command of the README that installs tox and runs it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ {4}(python -m pip install tox\b.*)$", text, re.MULTILINE)
    return str(command)


def test_the_repository_has_exactly_the_four_expected_workflows() -> None:
    names = ["ci.yml", "compiled.yml", "nightly.yml", "refresh-baselines.yml"]
    assert [path.name for path in WORKFLOWS] == names


@each_workflow
def test_every_action_of_a_workflow_is_pinned_by_a_commit_with_its_version(path: Path) -> None:
    uses = re.findall(r"\buses:\s*(.*)", path.read_text(encoding="utf-8"))
    pinned = re.compile(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [use for use in uses if not pinned.fullmatch(use)] == []


@each_workflow
def test_every_job_of_a_workflow_has_a_timeout_and_permissions_and_no_checkout_keeps_the_token(
    path: Path,
) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^permissions:.*$", text, re.MULTILINE) == ["permissions: {}"]
    jobs = re.findall(r"^    runs-on:", text, re.MULTILINE)
    for setting in (r"permissions:", r"timeout-minutes: \d+$"):
        assert len(re.findall(f"^    {setting}", text, re.MULTILINE)) == len(jobs)
    checkouts = text.count("uses: actions/checkout@")
    assert text.count("persist-credentials: false") == checkouts


@each_workflow
def test_the_lint_environment_checks_every_workflow_against_the_schema(path: Path) -> None:
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert f".github/workflows/{path.name}" in tox


@each_workflow
def test_no_self_hosted_runner_runs_the_code_of_a_pull_request(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    runners = re.findall(r"^    runs-on: (?!ubuntu-|\$\{\{ matrix\.).*$", text, re.MULTILINE)
    started = re.findall(
        r"^  (?:pull_request\w*|push|issue_comment|workflow_run):", text, re.MULTILINE
    )
    assert not (runners and started)
    assert runners or "--against" not in text


def test_the_nightly_workflow_measures_only_by_its_schedule_or_by_hand() -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    events = """contains(fromJSON('["schedule", "workflow_dispatch"]'), github.event_name)"""
    (condition,) = re.findall(
        r"^    if: (.*)\n    runs-on: \$\{\{ vars\.BUSBW_TPU_RUNNER", text, re.MULTILINE
    )
    assert condition == f"vars.BUSBW_TPU_RUNNER != '' && {events}"


def test_the_script_ci_run_and_the_push_workflow_run_the_test_command_of_the_readme() -> None:
    command = _test_command()
    # It ends at the first error.
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert {command, "set -euo pipefail"} <= {*lines}
    push = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert f"run: {command}" in [line.strip() for line in push.splitlines()]


def test_the_push_workflow_runs_the_exhaustive_tests() -> None:
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(ROOT / "tox.ini", encoding="utf-8")
    left_out = re.findall(r'-m "not (\w+)"', ini["testenv:tests"]["commands"])
    assert left_out == ["exhaustive"]
    assert f"-m {left_out[0]} " in ini["testenv:exhaustive"]["commands"]
    push = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "python -m tox -e exhaustive" in push


def test_the_push_workflow_tests_each_python_from_the_oldest_supported_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    push = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^ +python: (\[.*\])$", push, re.MULTILINE)
    oldest = project["requires-python"].removeprefix(">=")
    assert json.loads(tested) == [oldest, "3.12", "3.13"]
    assert "python-version: ${{ matrix.python }}" in push


@pytest.mark.parametrize("path", [*GATE, ROOT / "tox.ini"], ids=lambda path: path.name)
def test_no_workflow_script_or_tox_setting_ignores_a_failure(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    hiding = re.findall(r"\|\|\s*(?:true|:)|continue-on-error|ignore_outcome|ignore_errors", text)
    assert hiding == []


NIGHTLY = ROOT / ".github" / "workflows" / "nightly.yml"
OF_INIT = ROOT / "busbw/extensions/setup/init/workflow.yml"
STEP = "Write the summary and make the page"
NIGHT = (NIGHTLY, STEP, "python", "report")
INIT = (OF_INIT, STEP, "busbw", "busbw")
PROBLEMS = ("", "history", "page", "page history", "summary", "no busbw")

# In place of busbw: it writes what it is asked for, but for the commands that $FAIL names.
_FAKE = """\
#!/bin/sh
if [ "$1" = -m ]; then shift 2; fi
echo "$@" >> "$RUNNER_TEMP/asked"
case " $FAIL " in *" $1 "*) echo "$1: an error" >&2; exit 2 ;; esac
case " $FAIL , $* " in *" history "*" --history="*) echo "an error" >&2; exit 2 ;; esac
for last; do :; done
if [ "$1" = page ]; then echo page > "$last"; fi
if [ "$1" = summary ]; then echo "## summary"; fi
"""


def script_of(path: Path, step: str) -> str:
    """Return the script that a step runs."""
    text = path.read_text(encoding="utf-8")
    match = re.search(
        rf"^      - name: {step}\n(?:        .*\n)*?        run: \|\n((?: {{10}}.*\n)+)",
        text,
        re.MULTILINE,
    )
    assert match is not None, step
    return textwrap.dedent(match[1])


def _run_step(
    folder: Path, workflow: tuple[Path, str, str, str], fail: str
) -> tuple[str, Mapping[str, str]]:
    """Run a step as the runner does; return its output and the files that it wrote."""
    path, step, program, report = workflow
    # The folder of the report must exist even if the installation fails.
    install = "python() { false; }\n" + script_of(path, "Install")
    subprocess.run(
        ["bash", "-e", "-c", install],
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(folder)},
        check=False,
    )
    (folder / report / "results.json").write_text("{}")
    if fail != "no busbw":
        (folder / "venv" / "bin").mkdir(parents=True)
        write_program(folder / "venv" / "bin" / program, _FAKE)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script_of(path, step)],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "shown"),
            "FAIL": fail,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    below = (file for file in folder.rglob("*") if file.is_file() and "venv" not in file.parts)
    return done.stdout, {file.relative_to(folder).as_posix(): file.read_text() for file in below}


@pytest.mark.parametrize("workflow", [NIGHT, INIT], ids=["nightly", "init"])
@pytest.mark.parametrize("fail", PROBLEMS)
def test_an_error_of_the_summary_or_page_command_is_a_warning_and_does_not_fail_the_job(
    fail: str, workflow: tuple[Path, str, str, str], tmp_path: Path
) -> None:
    output, files = _run_step(tmp_path, workflow, fail)
    no_history = fail in ("history", "page history", "summary", "no busbw")
    no_page = fail in ("page", "page history", "no busbw")
    no_summary = fail in ("summary", "no busbw")
    assert ("::warning title=No history::" in output) == no_history
    assert ("::warning title=No page::" in output) == no_page
    report = workflow[3]
    assert (files.get(f"{report}/busbw.html") == "page\n") != no_page
    assert ("There is no summary: the log says why." in files["shown"]) == no_summary
    assert files["shown"] == files[f"{report}/summary.md"]
    if workflow is NIGHT:
        assert files.get("output", "") == ("" if no_page else "made=true\n")
    if fail in ("", "history"):
        commands = files["asked"].splitlines()
        history, results = f" --history={tmp_path}/history", f"{tmp_path}/{report}/results.json"
        without = "" if fail else history
        assert commands[0] == f"summary {results}{history}"
        assert (commands[1] == f"summary {results}") == bool(fail)
        assert commands[-1] == f"page {results}{without} -o {tmp_path}/{report}/busbw.html"


# In place of GitHub's own command: one issue is open, if $OPEN says which.
_GH = """\
#!/bin/sh
echo "$@" >> "$RUNNER_TEMP/asked"
if [ "$2" = list ]; then echo "$OPEN"; fi
"""


@pytest.mark.parametrize("path", [NIGHTLY, OF_INIT], ids=["nightly", "init"])
@pytest.mark.parametrize("number", ["", "7"])
def test_a_failed_nightly_session_opens_an_issue_or_edits_the_open_issue(
    number: str, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "summary.md").write_text("x" * 70_000)
    write_program(tmp_path / "gh", _GH)
    script = script_of(path, "Open the issue, or update the open issue")
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "RUN": "https://host/o/r/actions/runs/1",
        "TITLE": "busbw: a nightly session failed",
        "OPEN": number,
    }
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=variables, check=True
    )
    listed, done = (tmp_path / "asked").read_text().splitlines()
    assert listed.startswith("issue list --state open ")
    created = "issue create --title busbw: a nightly session failed --body-file body.md"
    assert done == (f"issue edit {number} --body-file body.md" if number else created)
    body = (tmp_path / "body.md").read_text()
    assert len(body) < 65_536 and body.endswith("\n\nhttps://host/o/r/actions/runs/1\n")


@pytest.mark.parametrize("path", [NIGHTLY, OF_INIT], ids=["nightly", "init"])
def test_only_a_job_that_runs_no_code_of_the_repository_may_write_issues(
    path: Path,
) -> None:
    text = path.read_text(encoding="utf-8")
    before, _, job = text.partition("\n  report:\n")
    job, _, after = job.partition("\n  publish:\n")
    assert "issues:" not in before + after and job.count("issues: write") == 1
    (condition,) = re.findall(r"^    if: (.*)$", job, re.MULTILINE)
    assert condition == (
        "${{ !cancelled() && vars.BUSBW_ISSUE == 'true' && needs.measure.result == 'failure' }}"
    )
    for word in ("actions/checkout", "python", "contents:", "self-hosted", "secrets.", "busbw "):
        assert word not in job.replace("busbw: the night", "")
    assert "pull_request_target" not in text


@pytest.mark.parametrize(("path", "step"), [NIGHT[:2], INIT[:2]], ids=["nightly", "init"])
def test_the_artifact_of_a_failed_nightly_session_contains_its_page(path: Path, step: str) -> None:
    text = path.read_text(encoding="utf-8")
    begun = text[text.index(f"- name: {step}\n") :]
    assert "        if: always()\n" in begun[: begun.index("run: |")]
    assert text.index(f"- name: {step}\n") > text.index("- name: Measure and ")
    assert "uses: actions/upload-artifact@" in begun


def test_only_a_job_that_runs_no_code_of_the_repository_may_publish_pages() -> None:
    text = NIGHTLY.read_text(encoding="utf-8")
    measure, publish = text.split("\n  publish:\n")
    for permission in ("pages: write", "id-token: write"):
        assert (measure.count(permission), publish.count(permission)) == (0, 1)
    for word in ("actions/checkout", "python", "contents:", "self-hosted", "secrets."):
        assert word not in publish
    assert "    runs-on: ubuntu-latest\n" in publish


def test_a_page_is_published_only_if_it_was_written_and_the_repository_requests_pages() -> None:
    text = NIGHTLY.read_text(encoding="utf-8")
    (condition,) = re.findall(r"  publish:\n.*\n.*\n    if: (.*)\n", text)
    assert condition == (
        "${{ !cancelled() && vars.BUSBW_PAGES == 'true' && needs.measure.outputs.page == 'true' }}"
    )
    assert "      page: ${{ steps.page.outputs.made }}\n" in text
    assert 'install ".[tpu,page,stack]"' in text


@pytest.mark.parametrize(
    "path",
    [ROOT / ".github/workflows/nightly.yml", ROOT / "busbw/extensions/setup/init/workflow.yml"],
    ids=lambda path: path.name,
)
def test_git_gives_the_token_only_to_the_server_of_the_workflow(path: Path, tmp_path: Path) -> None:
    settings = re.findall(r"^ +(GIT_CONFIG_\w+): (.*)$", path.read_text(), re.MULTILINE)
    # The steps that fetch and push say the same.
    assert len(settings) == 6 and settings[:3] == settings[3:]
    variables = {name: text.strip("'\"") for name, text in settings}
    variables = {
        k: v.replace("${{ github.server_url }}", "https://h.org") for k, v in variables.items()
    }

    def fill(protocol: str, host: str) -> str:
        """Return what git would log in with at that host."""
        done = subprocess.run(
            ["git", "credential", "fill"],
            input=f"protocol={protocol}\nhost={host}\n\n",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "GH_TOKEN": "secret",
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_CONFIG_NOSYSTEM": "1",
                **variables,
            },
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
        )
        return done.stdout

    login = "username=x-access-token\npassword=secret\n"
    assert fill("https", "h.org") == f"protocol=https\nhost=h.org\n{login}"
    assert (fill("http", "h.org"), fill("https", "other.org")) == ("", "")
