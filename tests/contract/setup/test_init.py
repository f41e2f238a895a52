"""`busbw init`: the files that it writes into a repository, and files that it leaves unchanged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.helpers.command_line import Answer, asked_here
from tests.helpers.session_folder import Folder

FILES = ("conftest.py", ".github/workflows/busbw.yml", "baselines/README.md")


def workflow(root: Path) -> str:
    return (root / FILES[1]).read_text()


def reported(answer: Answer) -> list[str]:
    """Return the lines about files, without the line on the next steps."""
    return answer.out.partition("next: ")[0].splitlines()


def test_busbw_init_writes_and_names_every_file_for_nightly_sessions(tmp_path: Path) -> None:
    answer = asked_here("init", tmp_path / "new")
    assert (answer.code, answer.err) == (0, "")
    assert reported(answer) == [f"wrote {tmp_path / 'new' / name}" for name in FILES]


def test_busbw_init_names_the_comment_with_the_next_steps(tmp_path: Path) -> None:
    line = asked_here("init", tmp_path).out.splitlines()[-1]
    assert line == f"next: follow the first comment of {tmp_path / FILES[1]}"
    first_comment = workflow(tmp_path).partition("\nname:")[0]
    assert "BUSBW_REQUIREMENT" in first_comment and '"record"' in first_comment


def test_busbw_init_leaves_existing_files_unchanged_and_names_these_files(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("theirs = 1\n")
    answer = asked_here("init", tmp_path)
    assert answer.code == 0
    first, *others, note = reported(answer)
    assert first == f"exists, left unchanged: {tmp_path / 'conftest.py'}"
    assert others == [f"wrote {tmp_path / name}" for name in FILES[1:]]
    assert note.startswith(f'note: {tmp_path / "conftest.py"} does not name "busbw.plugin"')
    assert (tmp_path / "conftest.py").read_text() == "theirs = 1\n"
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    again = asked_here("init", tmp_path, "--device=tpu")
    assert again.code == 0
    assert again.out.count("exists, left unchanged: ") == len(FILES)
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before


def test_busbw_init_continues_after_an_error_when_it_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "baselines").write_text("a file")
    answer = asked_here("init", tmp_path)
    assert answer.code == 1
    assert answer.errors == [f"busbw init: {tmp_path / FILES[2]}: File exists"]
    assert reported(answer) == [f"wrote {tmp_path / name}" for name in FILES[:2]]
    (tmp_path / "baselines").unlink()
    answer = asked_here("init", tmp_path)
    assert answer.code == 0
    assert reported(answer)[-1] == f"wrote {tmp_path / FILES[2]}"


@pytest.mark.parametrize(
    ("root", "path", "message"),
    [
        ("folder", "folder/conftest.py", "folder/conftest.py: expected a regular file"),
        ("file", "folder", "file"),
    ],
)
def test_busbw_init_gives_an_error_for_a_folder_in_place_of_a_file_and_a_file_in_place_of_the_root(
    tmp_path: Path, root: str, path: str, message: str
) -> None:
    (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").touch()
    answer = asked_here("init", tmp_path / root)
    assert answer.code == 1
    assert f"busbw init: {tmp_path}/{message}" in answer.errors[0]


@pytest.mark.parametrize(
    ("options", "extra", "runner"),
    [
        ([], "jax", "ubuntu-latest"),
        (["--device=gpu"], "cuda", "${{ vars.BUSBW_RUNNER || 'ubuntu-latest' }}"),
        (["--device=tpu"], "tpu", "${{ vars.BUSBW_RUNNER || 'ubuntu-latest' }}"),
        (["--framework=tensorflow"], "tf", "ubuntu-latest"),
        (
            ["--framework=tensorflow", "--device=gpu"],
            "tf-cuda",
            "${{ vars.BUSBW_RUNNER || 'ubuntu-latest' }}",
        ),
    ],
)
def test_the_workflow_of_busbw_init_installs_and_measures_the_requested_framework_and_device(
    options: list[str], extra: str, runner: str, tmp_path: Path
) -> None:
    assert asked_here("init", tmp_path, *options).code == 0
    text = workflow(tmp_path)
    assert f"busbw[{extra},page] @ git+https://" in text
    assert f"    runs-on: {runner}\n" in text
    device = next((o.removeprefix("--device=") for o in options if "device" in o), "cpu")
    framework = "tensorflow" if "--framework=tensorflow" in options else "jax"
    assert text.count(f'busbw" run --device={device} --frameworks={framework} \\\n') == 2


def test_the_workflow_of_busbw_init_installs_the_package_that_a_variable_names(
    tmp_path: Path,
) -> None:
    asked_here("init", tmp_path)
    text = workflow(tmp_path)
    assert "BUSBW_REQUIREMENT: ${{ vars.BUSBW_REQUIREMENT }}\n" in text
    assert "#@" not in text


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (
            {
                "url": "https://example.com/o/busbw",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "main"},
            },
            '"busbw[tpu,page] @ git+https://example.com/o/busbw@abc"',
        ),
        (
            {"url": "https://example.com/busbw-1-py3-none-any.whl", "archive_info": {}},
            '"busbw[tpu,page] @ https://example.com/busbw-1-py3-none-any.whl"',
        ),
        ({"url": "file:///here/busbw.whl", "archive_info": {}}, "${{ vars.BUSBW_REQUIREMENT }}"),
        (
            {"url": "https://me:hunter2@example.com/busbw.whl", "archive_info": {}},
            "${{ vars.BUSBW_REQUIREMENT }}",
        ),
    ],
)
def test_the_workflow_of_busbw_init_installs_busbw_from_the_same_url_as_the_current_busbw(
    origin: dict[str, object],
    requirement: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = tmp_path / "site" / "busbw-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: busbw\nVersion: 0.1.0\n")
    (installed / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert asked_here("init", tmp_path, "--device=tpu").code == 0
    assert f"BUSBW_REQUIREMENT: {requirement}\n" in workflow(tmp_path)


def test_the_workflow_of_busbw_init_pins_its_actions_and_has_the_least_permissions(
    tmp_path: Path,
) -> None:
    asked_here("init", tmp_path)
    text = workflow(tmp_path)
    uses = re.findall(r"\buses:\s*(.*)", text)
    pinned = re.compile(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert uses and not [use for use in uses if not pinned.fullmatch(use)]
    assert re.findall(r"^ *permissions:.*\n.*$", text, re.MULTILINE) == [
        "permissions: {}\n",
        "    permissions:\n      contents: read # the checkout, and the history",
        "    permissions:\n      contents: write # the branch busbw-history",
        "    permissions:\n      issues: write # one issue, by its title",
    ]
    assert "persist-credentials: false" in text and "|| true" not in text


def test_user_tests_and_busbw_tests_run_with_the_files_that_busbw_init_writes(
    folder: Folder,
) -> None:
    (folder.path / "conftest.py").unlink()
    assert asked_here("init", folder.path).code == 0
    (folder.path / "test_theirs.py").write_text("def test_theirs(): pass\n")
    ran = folder.pytest("test_theirs.py", exit_code=0, reports=False)
    assert "busbw" not in ran.text.split("collected")[1]
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}


def test_an_option_of_the_repository_that_busbw_also_has_is_a_usage_error_with_a_remedy(
    folder: Folder,
) -> None:
    conftest = folder.path / "conftest.py"
    own_option = """
def pytest_addoption(parser):
    parser.addoption("--device", default="cpu")
"""
    conftest.write_text(conftest.read_text() + own_option)
    ran = folder.pytest("perf", exit_code=4, reports=False)
    assert (
        "--device is also an option of conftest.py or of a plugin; rename that option" in ran.text
    )
