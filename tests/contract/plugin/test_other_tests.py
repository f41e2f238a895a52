"""Sessions with tests that measure nothing, whose conftest.py loads the plugin of busbw."""

from __future__ import annotations

import re

import pytest

from tests.helpers.session_folder import Folder

OTHER = """
import pytest

@pytest.fixture
def compiled():
    return "a program of theirs"

def test_a_fixture_of_the_user_may_have_the_name_compiled(compiled):
    assert compiled == "a program of theirs"

@pytest.mark.parametrize("verdict", ["guilty", "not guilty"])
def test_a_parameter_of_the_user_may_have_the_name_verdict(verdict):
    assert "guilty" in verdict

@pytest.mark.parametrize(argnames=["verdict"], argvalues=[["guilty"]])
def test_a_list_of_parameters_of_the_user_may_have_the_name_verdict(verdict):
    assert verdict == "guilty"

class TestOfAClass:
    @pytest.fixture
    def verdict(self):
        return "theirs"

    def test_a_fixture_in_a_class_of_the_user_may_have_the_name_verdict(self, verdict):
        assert verdict == "theirs"

def explained(verdict):
    raise AssertionError("no test")

def test_a_helper_of_the_user_is_not_a_test():
    explained
"""
OF_OTHER = 6


@pytest.fixture
def mixed_folder(folder: Folder) -> Folder:
    """Return a folder that also has tests that measure nothing."""
    (folder.path / "tests").mkdir()
    (folder.path / "tests" / "test_other.py").write_text(OTHER)
    return folder


def output_of(folder: Folder, *options: str) -> str:
    """Return the output of a session of tests that measure nothing, without times and folders."""
    ran = folder.pytest("tests", "-v", *options, exit_code=0, reports=False)
    return re.sub(r"\d+\.\d+s|^rootdir: .*$", "", ran.text, flags=re.MULTILINE)


def test_a_session_that_measures_nothing_prints_the_same_with_and_without_the_plugin(
    mixed_folder: Folder,
) -> None:
    with_plugin = output_of(mixed_folder)
    assert f"{OF_OTHER} passed" in with_plugin
    assert "busbw" not in with_plugin and "session" not in with_plugin.split("collected")[1]
    (mixed_folder.path / "conftest.py").write_text("")
    assert output_of(mixed_folder, "-p", "no:busbw.plugin") == with_plugin


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "setting", [{"busbw_launches": "0"}, {"busbw_baselines": "nowhere"}, {"busbw_python": "none"}]
)
def test_an_invalid_ini_setting_is_a_usage_error_only_in_a_session_that_measures(
    mixed_folder: Folder, setting: dict[str, str]
) -> None:
    mixed_folder.ini(setting)
    assert "busbw" not in output_of(mixed_folder)
    ran = mixed_folder.pytest("tests", "perf", exit_code=4, reports=False)
    assert ran.sentence.startswith("ERROR: busbw: ") and "--" in ran.sentence


def test_an_invalid_option_is_a_usage_error_even_in_a_session_that_measures_nothing(
    mixed_folder: Folder,
) -> None:
    ran = mixed_folder.pytest("tests", "--launches=0", exit_code=4, reports=False)
    assert "argument --launches: expected a number from 1 to" in ran.sentence


def test_cases_are_measured_in_the_same_session_as_other_tests_run(
    mixed_folder: Folder,
) -> None:
    ran = mixed_folder.run("tests", exit_code=0)
    assert f"{OF_OTHER} passed, 1 without baseline" in ran.last_line
    assert "busbw device: " in ran.text


def test_a_session_in_which_all_tests_that_measure_are_deselected_measures_nothing(
    mixed_folder: Folder,
) -> None:
    ran = mixed_folder.run("tests", "-k", "test_a_helper_of_the_user_is_not_a_test", exit_code=0)
    assert "1 passed" in ran.last_line
    assert "busbw" not in ran.text.split("collected")[1]


@pytest.mark.exhaustive
def test_a_fixture_that_overrides_busbw_verdict_can_return_the_original_verdict(
    folder: Folder,
) -> None:
    ours = "busbw_verdict"
    changed = f"import pytest\n\n@pytest.fixture\ndef {ours}({ours}):\n    return {ours}\n"
    (folder.path / "perf" / "conftest.py").write_text(changed)
    assert folder.run(exit_code=0).outcomes == {"1M": "NO_BASELINE"}
