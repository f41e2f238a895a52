"""-m training: steps beside their collectives, with baselines of their own; their examples."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from busbw.model.training import CNN, EXAMPLE_BYTES
from busbw.session import resolution
from busbw.session.option import UsageError
from tests import build
from tests.worker.backends import real

from .folder import SLOW, Folder

STEP = "fake-dense_step-default-float32-1M"
ALONE = "fake-default-float32-1M"
TRAINING = ("-m", "training(step='dense')")


def _collected(folder: Folder, *options: str) -> list[str]:
    command = ("perf", "--frameworks=fake", "--collect-only", "-q", *options)
    ran = folder.pytest(*command, exit_code=0, reports=False)
    return [line for line in ran.text.splitlines() if "::" in line]


def _ids(folder: Folder, *options: str) -> dict[str, str]:
    """Outcomes by the id of their case."""
    ran = folder.run(*TRAINING, *options, exit_code=0)
    return ran.ids


@pytest.mark.parametrize("options", [(), ("-m", "not training")])
def test_a_session_without_training_collects_what_it_would_without_the_file(
    folder: Folder, options: tuple[str, ...]
) -> None:
    before = _collected(folder, *options)
    (folder.path / "perf" / "test_training.py").unlink()
    assert _collected(folder, *options) == before
    assert len(before) == 22


def test_training_collects_three_steps_and_their_all_reduces_alone(folder: Folder) -> None:
    sizes = ("1M", "4M", "16M")
    assert [line.partition("::")[2] for line in _collected(folder, *TRAINING)] == [
        *(f"test_dense_step[fake-dense_step-default-float32-{size}]" for size in sizes),
        *(f"test_all_reduce_alone[fake-default-float32-{size}]" for size in sizes),
        "session",
    ]


def test_payloads_that_are_asked_for_are_those_of_the_steps(folder: Folder) -> None:
    assert list(_ids(folder, "--payloads=2K,8M")) == [
        "fake-dense_step-default-float32-2K",
        "fake-dense_step-default-float32-8M",
        "fake-default-float32-2K",
        "fake-default-float32-8M",
    ]


def test_a_step_stands_beside_its_all_reduce_alone_and_inside(folder: Folder) -> None:
    folder.script(**SLOW, share_of_step=0.25, cases=[{"step": "dense", "slower": 2}])
    ran = folder.run(*TRAINING, exit_code=0)
    lines = ran.text.splitlines()
    (head,) = [n for n, line in enumerate(lines) if line.endswith("in a dense step, 4 ranks:")]
    size, step, _, alone, _, share, last, _, first, _ = lines[head + 3].split()
    assert (size, share) == ("1M", "50")
    assert float(step) == pytest.approx(2 * float(alone), rel=0.02)
    assert last == first
    assert float(last) == pytest.approx(0.25e3 * float(step), rel=0.05)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("hidden", "shown"), [(0, ["0"]), (0.5, ["50"]), (1, ["100"]), (None, [])])
def test_how_much_of_the_all_reduce_computing_hid_is_shown_where_it_is_known(
    folder: Folder, hidden: float | None, shown: list[str]
) -> None:
    folder.script(**SLOW, hidden=hidden)
    ran = folder.run(*TRAINING, exit_code=0)
    lines = ran.text.splitlines()
    (head,) = [n for n, line in enumerate(lines) if line.endswith("in a dense step, 4 ranks:")]
    assert lines[head + 1].split()[-1] == "hidden"
    assert lines[head + 3].split()[10:] == shown
    (step,) = [case for case in ran.cases if case["case"]["step"]]
    (launch,) = step["launches"]
    wanted = None if hidden is None else pytest.approx(hidden, abs=1e-3)
    assert launch["overlap_fraction"] == wanted


def test_a_step_has_no_rates_in_the_table_or_in_junit(folder: Folder) -> None:
    ran = folder.run(*TRAINING, exit_code=0)
    names = {
        name: {one.get("name") for one in case.iter("property")} for name, case in ran.tests.items()
    }
    assert "busbw_gb_per_s" not in names[f"test_dense_step[{STEP}]"]
    assert "busbw_gb_per_s" in names[f"test_all_reduce_alone[{ALONE}]"]


def test_a_step_without_a_whole_recording_is_measured_all_the_same(folder: Folder) -> None:
    folder.script(**SLOW, events_lost=1)
    ran = folder.run(*TRAINING, exit_code=0)
    (step,) = [case for case in ran.cases if case["case"]["step"]]
    assert step["launches"][0]["over_ranks_s"] == {}
    assert "in a dense step, 4 ranks:" in ran.text


def test_steps_have_a_baseline_file_of_their_own_and_are_found_in_it_again(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*TRAINING)
    assert [path.name for path in folder.baseline_files] == [
        "fake.all_reduce.fake.json",
        "fake.dense_step.all_reduce.fake.json",
    ]
    assert _ids(folder) == {STEP: "PASS", ALONE: "PASS"}


@pytest.mark.exhaustive
def test_a_collective_without_a_baseline_does_not_take_a_step_s(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*TRAINING, "-k", "dense_step or session")
    (only,) = folder.baseline_files
    assert only.name == "fake.dense_step.all_reduce.fake.json"
    ran = folder.run(exit_code=0)
    assert ran.case()["outcome"] == "NO_BASELINE"


@pytest.mark.exhaustive
def test_a_step_that_got_slower_fails_and_its_all_reduce_does_not(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*TRAINING, "--launches=5")
    folder.script(**SLOW, cases=[{"step": "dense", "slower": 6}])
    ran = folder.run(*TRAINING, "--launches=5", exit_code=1)
    found = ran.ids
    assert found == {STEP: "REGRESSED", ALONE: "PASS"}


def test_a_step_whose_ranks_disagree_fails_alone(folder: Folder) -> None:
    folder.script(cases=[{"step": "dense", "then": "wrong_result"}])
    ran = folder.run(*TRAINING, exit_code=1)
    found = ran.ids
    assert found == {STEP: "FAILED", ALONE: "NO_BASELINE"}


@pytest.mark.exhaustive
def test_pruning_with_steps_alone_leaves_the_collective_s_baselines(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines("--payloads=1K,1M")
    before = folder.baseline_files[0].read_text()
    training = ("perf/test_training.py", *TRAINING, "--frameworks=fake", "--payloads=1M")
    folder.pytest(*training, "--launches=1", "--prune-baselines", exit_code=0)
    assert folder.baseline_files[0].read_text() == before


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--payloads=1K", "a gradient of 1K is no multiple of 2K, the weights of one input"),
        ("--collectives=permute", "a dense training step has no collective permute"),
        ("--dtypes=int32", "a dense training step has no dtype int32; it has float32"),
        ("--clock=dispatch", "a dense training step has no clock dispatch"),
    ],
)
def test_what_no_step_has_is_a_usage_error(folder: Folder, option: str, said: str) -> None:
    assert said in folder.run(*TRAINING, option, exit_code=4).sentence


def test_strategies_that_no_step_of_the_framework_has_are_a_usage_error(folder: Folder) -> None:
    (folder.path / "jax.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("--frameworks=jax", "--strategies=mirrored", "--collect-only")
    ran = folder.pytest("perf", "-m", "training", *options, exit_code=4)
    assert ran.sentence.endswith(
        "jax with the strategies mirrored; those of tf.distribute for training want -m training"
    )


def test_jax_and_tensorflow_have_the_same_steps_and_neither_is_imported(folder: Folder) -> None:
    for name in ("jax", "tensorflow"):
        (folder.path / f"{name}.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("--frameworks=jax,tensorflow", "--payloads=1M", "--collect-only", "-q")
    ran = folder.pytest("perf", *TRAINING, *options, exit_code=0, reports=False)
    assert [line.partition("::")[2] for line in ran.text.splitlines() if "_step[" in line] == [
        f"test_dense_step[{name}-dense_step-default-float32-1M]" for name in ("jax", "tensorflow")
    ]


@real.needs("tensorflow")
def test_tensorflow_s_step_stands_beside_its_all_reduce_and_has_a_baseline_of_its_own(
    folder: Folder,
) -> None:
    options = ("--frameworks=tensorflow", "--device=cpu", "--ranks=2", "--payloads=1M")
    written = ("--launches=1", "--update-baselines")
    ran = folder.pytest("perf/", *TRAINING, *options, *written, exit_code=0)
    assert "in a dense step, 2 ranks:" in ran.text
    assert [path.name for path in folder.baseline_files] == [
        "tensorflow.all_reduce.ring.json",
        "tensorflow.dense_step.all_reduce.ring.json",
    ]
    (step,) = [case for case in ran.cases if case["case"]["step"]]
    (run,) = step["launches"]
    assert run["proof"]["collectives"] == {"CollectiveReduceV2": 2}
    assert set(run["over_ranks_s"]) == {"slowest", "mean", "median", "fastest"}


def test_compiling_for_absent_chips_has_no_training(folder: Folder) -> None:
    (folder.path / "jax.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("--topology=v5e:2x2", "--payloads=1M", "--collect-only")
    ran = folder.pytest("perf", "-m", "training or not training", *options, exit_code=0)
    assert "test_compiled[" in ran.text
    assert "test_dense_step" not in ran.text


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        ("not (training)", False),
        ("not(training)", False),
        ("not slow", False),
        ("not (slow or training)", False),
        ("training or not training", True),
        ("training and not slow", True),
        ("not not training", True),
    ],
)
def test_training_is_there_where_the_expression_asks_for_it(
    folder: Folder, expression: str, asked: bool
) -> None:
    markers = "\n".join(["[pytest]", "markers =", "    slow: takes long", "filterwarnings = error"])
    (folder.path / "pytest.ini").write_text(markers + "\n")
    found = _collected(folder, "-m", expression, "--payloads=2K")
    assert any("test_dense_step" in line for line in found) is asked


def test_a_gradient_that_is_none_is_no_reason_to_refuse_a_session_without_training(
    folder: Folder,
) -> None:
    ran = folder.run("-m", "not (training)", "--payloads=1K", exit_code=0)
    assert ran.outcomes == {"1K": "NO_BASELINE"}
    ran = folder.run("-m", "training", "--payloads=1K", exit_code=4)
    assert "a gradient of 1K is no multiple of 2K" in ran.sentence


LEARNS = build.case(framework="tensorflow", step=CNN)


def test_nothing_is_written_where_nothing_is_learned(tmp_path: Path) -> None:
    others = [build.case(), build.case(framework="fake", step=CNN), build.case(step="dense")]
    assert resolution.examples_for(others, tmp_path) == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_each_example_is_its_pixels_and_its_label(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    content = Path(resolution.examples_for([LEARNS], tmp_path)).read_bytes()
    count, rest = divmod(len(content), EXAMPLE_BYTES)
    assert (count, rest) == (1797, 0)
    labels = content[EXAMPLE_BYTES - 1 :: EXAMPLE_BYTES]
    assert labels[:12] == bytes([*range(10), 0, 1])
    # The first one is a nought: ink around, none in the middle.
    assert list(content[2 * 8 : 3 * 8]) == [0, 3, 15, 2, 0, 11, 8, 0]
    assert max(content) == 16


def test_without_scikit_learn_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r'pip install "busbw\[tf\]", or leave it out'):
        resolution.examples_for([LEARNS], tmp_path)
