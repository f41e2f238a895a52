"""What is asked for and cannot be measured: pytest says the sentence and ends with exit code 4.

Every sentence is in `tests/unit/session/test_usage_errors.py`.
"""

from __future__ import annotations

import pytest

from tests.contract.plugin.test_reference_options import AGAINST
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

# What a script of the fake back end has attached.
TPU = {"device": "tpu", "device_kind": "TPU v2", "ranks": 8}
ATTACHED = [
    (TPU, ["--device=tpu", "--ranks=16"], "8 ranks (TPU v2), 16 requested"),
    ({**TPU, "ranks": 1}, ["--device=tpu"], "1 rank (TPU v2), two are needed"),
    ({**TPU, "ranks": 1}, [], "1 rank (TPU v2), two are needed"),
    ({"probe": "exit"}, [], "ended with exit code 3 while looking for devices with fake"),
    ({"probe": "exit"}, [], "the script says exit"),
    (
        {"clocks": ["host", "dispatch"]},
        ["--clock=device"],
        "ERROR: busbw: fake has no clock device for all_reduce on the CPU; it has default, host, ",
    ),
]
# Said at collection, where no framework is imported.
OF_TENSORFLOW = [
    ("--collectives=all_gather", "has no all_gather; it has all_reduce"),
    ("--reduce-ops=min", "has no reduce op min; it has sum"),
    ("--mesh=2x2", "lays ranks out in no mesh (2x2)"),
]


@pytest.mark.parametrize(
    ("options", "message"),
    sweep(
        [
            (
                ["--payloads=abc"],
                "--payloads: 'abc' is not a size; expected a whole number",
            ),
            (["--mesh=2x4", "--axes=z"], "is no axis of the mesh 2x4; it has x, y"),
            (["--python=fake=/bin/false"], "fake: /bin/false: the worker ended with exit code 1"),
            (
                [AGAINST, "--payloads=1K,1M", "-k", "1K", "--inject=delay:15%@1K+1M"],
                "--inject: expected a selected payload (1K), got 1M",
            ),
        ],
        in_gate=2,
    ),
)
def test_options_that_request_a_case_that_cannot_be_measured_are_a_usage_error(
    folder: Folder, options: list[str], message: str
) -> None:
    ran = folder.run(*options, exit_code=4)
    assert message in ran.sentence
    assert len(ran.sentence) <= 3 * 80
    assert ran.results is None


@pytest.mark.parametrize(("script", "options", "message"), sweep(ATTACHED, in_gate=2))
def test_options_that_request_something_the_devices_cannot_do_are_a_usage_error(
    folder: Folder, script: dict[str, object], options: list[str], message: str
) -> None:
    folder.script(**script)
    ran = folder.run(*options, exit_code=4)
    assert message in ran.sentence
    assert ran.results is None


@pytest.mark.parametrize(("option", "message"), sweep(OF_TENSORFLOW))
def test_an_option_value_that_a_framework_lacks_is_refused_before_the_framework_is_imported(
    folder: Folder, option: str, message: str
) -> None:
    (folder.path / "tensorflow.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("perf", "--frameworks=tensorflow", option, "--collect-only")
    assert folder.pytest(*options, exit_code=4).sentence == f"ERROR: busbw: tensorflow {message}"


@pytest.mark.parametrize(
    ("option", "choices"),
    sweep(
        [
            ("--device=quantum", ("auto", "tpu")),
            ("--clock=sundial", ("sundial", "default", "host", "dispatch", "device")),
        ]
    ),
)
def test_the_usage_error_about_an_invalid_option_value_lists_the_valid_values(
    folder: Folder, option: str, choices: tuple[str, ...]
) -> None:
    ran = folder.run(option, exit_code=4)
    assert [choice for choice in choices if choice not in ran.text] == []
