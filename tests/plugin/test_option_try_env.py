"""--try-env: a variable of the candidate; what was made different is said wherever times are."""

from __future__ import annotations

import json

import pytest

from .folder import SLOW, Folder

PAIRS = "--launches=2"
FLAG = "XLA_FLAGS=--xla_cpu_enable_fast_math=true"


@pytest.fixture(autouse=True)
def libraries() -> None:
    """Skips where pages cannot be made."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")


def candidate(**fields: object) -> str:
    """The option by which the candidate plays another script."""
    return f"--try-env=BUSBW_FAKE={json.dumps(fields)}"


def test_what_the_variable_makes_slower_is_slower_than_the_reference_without(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    ran = folder.run(candidate(**SLOW, cases=[{"slower": 1.2}]), PAIRS, exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert ran.case()["ratio"] == pytest.approx(1.2, rel=0.05)


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        (f"--try-env={FLAG}", f"candidate: {FLAG}; reference: none"),
        (f"--against-env={FLAG}", f"candidate: none; reference: {FLAG}"),
    ],
)
def test_the_flag_is_in_the_title_the_results_the_page_and_the_history(
    option: str, changed: str, folder: Folder
) -> None:
    folder.script(**SLOW)
    page = folder.path / "page.html"
    ran = folder.run(option, PAIRS, f"--page={page}", "--history=nights", exit_code=0)
    (title,) = (line for line in ran.text.splitlines() if "all_reduce (fake)" in line)
    assert title.endswith(f"; {changed}")
    assert ran.results is not None
    assert ran.results["environment"]["changed"] == changed
    assert page.read_text().count(changed) >= 2
    (path,) = (folder.path / "nights").rglob("*.jsonl")
    assert json.loads(path.read_text())["changed"] == changed


def test_a_value_that_is_not_recorded_elsewhere_is_not_shown(folder: Folder) -> None:
    ran = folder.run(
        "--try-env=MY_TOKEN=hunter2", "--against-env=TF_X=swordfish", PAIRS, exit_code=0
    )
    assert "candidate: MY_TOKEN=(set); reference: TF_X=(set)" in ran.text
    for secret in ("hunter2", "swordfish"):
        assert secret not in ran.text + json.dumps(ran.results)


def test_the_page_of_an_injected_session_says_so_at_its_top(folder: Folder) -> None:
    folder.script(**SLOW)
    page = folder.path / "page.html"
    ran = folder.run("--inject=delay:30%", f"--page={page}", exit_code=0)
    (title,) = (line for line in ran.text.splitlines() if "all_reduce (fake)" in line)
    assert title.endswith("; injected delay:30%")
    text = page.read_text()
    assert text.index("injected: delay:30%; the times are not real.") < text.index("NO_BASELINE")


def test_an_ordinary_session_says_nothing_of_it(folder: Folder) -> None:
    ran = folder.run(exit_code=0)
    assert ran.results is not None
    assert ran.results["environment"]["changed"] == ""


@pytest.mark.parametrize("text", ["NAME", "=value", ""])
def test_nonsense_is_a_usage_error_that_says_what_is_accepted(folder: Folder, text: str) -> None:
    ran = folder.run(f"--try-env={text}", exit_code=4)
    assert f"--try-env: {text!r}; accepted is NAME=VALUE" in ran.sentence


def test_nothing_of_it_becomes_a_baseline(folder: Folder) -> None:
    ran = folder.run("--try-env=A=B", "--update-baselines", exit_code=4)
    assert "--update-baselines: not with --against" in ran.sentence


def test_it_is_not_compared_with_nights_without_it(folder: Folder) -> None:
    ran = folder.run("--try-env=A=B", "--against=baseline", exit_code=4)
    assert "--try-env: not with --against=baseline, whose nights are a history" in ran.sentence
