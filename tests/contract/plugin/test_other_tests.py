"""Sessions with tests of other things: those that conftest.py lets busbw's plugin into."""

from __future__ import annotations

import re

import pytest

from tests.helpers.session_folder import Folder

OTHER = """
import pytest

@pytest.fixture
def compiled():
    return "a program of theirs"

def test_fixture_of_the_same_name(compiled):
    assert compiled == "a program of theirs"

@pytest.mark.parametrize("verdict", ["guilty", "not guilty"])
def test_parameter_of_the_same_name(verdict):
    assert "guilty" in verdict

@pytest.mark.parametrize(argnames=["verdict"], argvalues=[["guilty"]])
def test_parameter_by_a_list(verdict):
    assert verdict == "guilty"

class TestOfAClass:
    @pytest.fixture
    def verdict(self):
        return "theirs"

    def test_fixture_of_a_class(self, verdict):
        assert verdict == "theirs"

def explained(verdict):
    raise AssertionError("no test")

def test_nothing():
    explained
"""
OF_OTHER = 6


@pytest.fixture
def beside(folder: Folder) -> Folder:
    """A folder with tests of other things, too."""
    (folder.path / "tests").mkdir()
    (folder.path / "tests" / "test_other.py").write_text(OTHER)
    return folder


def output_of(folder: Folder, *options: str) -> str:
    """What a session of the other tests says, without times and the names of folders."""
    ran = folder.pytest("tests", "-v", *options, exit_code=0, reports=False)
    return re.sub(r"\d+\.\d+s|^rootdir: .*$", "", ran.text, flags=re.MULTILINE)


def test_a_session_of_other_tests_is_as_it_is_without_the_plugin(beside: Folder) -> None:
    with_plugin = output_of(beside)
    assert f"{OF_OTHER} passed" in with_plugin
    assert "busbw" not in with_plugin and "session" not in with_plugin.split("collected")[1]
    (beside.path / "conftest.py").write_text("")
    assert output_of(beside, "-p", "no:busbw.plugin") == with_plugin


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "setting", [{"busbw_launches": "0"}, {"busbw_baselines": "nowhere"}, {"busbw_python": "none"}]
)
def test_a_wrong_ini_setting_is_a_usage_error_only_where_busbw_measures(
    beside: Folder, setting: dict[str, str]
) -> None:
    beside.ini(setting)
    assert "busbw" not in output_of(beside)
    ran = beside.pytest("tests", "perf", exit_code=4, reports=False)
    assert ran.sentence.startswith("ERROR: busbw: --")


def test_a_wrong_option_is_a_usage_error_also_where_nothing_is_measured(beside: Folder) -> None:
    ran = beside.pytest("tests", "--launches=0", exit_code=4, reports=False)
    assert "argument --launches: expected a whole number from 1, got '0'" in ran.sentence


def test_other_tests_and_tests_that_measure_run_in_one_session(beside: Folder) -> None:
    ran = beside.run("tests", exit_code=0)
    assert f"{OF_OTHER} passed, 1 without baseline" in ran.last_line
    assert "busbw: fake, 1 payload (" in ran.text


def test_where_the_tests_that_measure_are_deselected_nothing_is_measured(beside: Folder) -> None:
    ran = beside.run("tests", "-k", "test_nothing", exit_code=0)
    assert "1 passed" in ran.last_line
    assert "busbw" not in ran.text.split("collected")[1]


@pytest.mark.exhaustive
def test_a_fixture_that_overrides_busbw_verdict_can_read_it(folder: Folder) -> None:
    ours = "busbw_verdict"
    changed = f"import pytest\n\n@pytest.fixture\ndef {ours}({ours}):\n    return {ours}\n"
    (folder.path / "perf" / "conftest.py").write_text(changed)
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}
