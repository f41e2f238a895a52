"""-m training: a small net under each strategy, in groups of processes, with verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.words import Outcome

from .folder import Folder, Ran

CNN = ("-m", "training(step='cnn')")
ALL = (
    "one_device",
    "mirrored",
    "multi_worker_mirrored",
    "parameter_server",
    "central_storage",
    "tpu",
)


def _by_strategy(ran: Ran) -> dict[str, dict[str, Any]]:
    return {case["id"].split("-")[2]: case for case in ran.cases}


def _outcomes(ran: Ran) -> dict[str, str]:
    return {name: case["outcome"] for name, case in _by_strategy(ran).items()}


def _script(folder: Folder, **strategies: dict[str, Any]) -> None:
    """Steps long enough that the least difference decides nothing."""
    slow = {name: {"step_s": 0.01, **strategies.pop(name, {})} for name in ALL[:-1]}
    folder.script(strategies={**slow, **strategies})


def test_each_strategy_is_a_test_with_an_outcome_of_its_own(folder: Folder) -> None:
    ran = folder.run(*CNN, exit_code=0)
    assert _outcomes(ran) == {
        **dict.fromkeys(ALL[:-1], Outcome.NO_BASELINE.value),
        "tpu": Outcome.SKIPPED.value,
    }
    assert f"test_strategy[fake-cnn_step-{ALL[1]}-float32-143656]" in ran.tests


@pytest.mark.exhaustive
def test_what_is_for_a_tpu_is_skipped_with_the_reason_and_holds_nothing_up(folder: Folder) -> None:
    folder.with_baselines(*CNN)
    ran = folder.run(*CNN, exit_code=0)
    assert _by_strategy(ran)["tpu"]["text"] == "the strategy tpu is for TPUs, this is a CPU"


@pytest.mark.exhaustive
def test_on_a_tpu_its_own_strategy_is_the_only_one(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v4")
    found = _outcomes(folder.run(*CNN, exit_code=0))
    assert {name for name, outcome in found.items() if outcome == "NO_BASELINE"} == {"tpu"}


@pytest.mark.exhaustive
def test_training_holds_the_strategies_beside_the_dense_step(folder: Folder) -> None:
    ran = folder.run("-m", "training", exit_code=0)
    ids = [case["id"] for case in ran.cases]
    assert "fake-dense_step-default-float32-1M" in ids
    assert "fake-cnn_step-mirrored-float32-143656" in ids


@pytest.mark.exhaustive
def test_strategies_can_be_chosen(folder: Folder) -> None:
    ran = folder.run(*CNN, "--strategies=mirrored,central_storage", exit_code=0)
    assert list(_outcomes(ran)) == ["mirrored", "central_storage"]


@pytest.mark.exhaustive
def test_those_of_a_collective_leave_none_of_them(folder: Folder) -> None:
    ran = folder.run("-m", "training", "--strategies=fake", exit_code=0)
    assert "cnn_step" not in ran.text


@pytest.mark.exhaustive
def test_those_of_training_leave_a_session_without_it_nothing(folder: Folder) -> None:
    said = folder.run("--strategies=mirrored", exit_code=4).sentence
    assert said.endswith("those of tf.distribute for training want -m training")
    assert "no tests ran" in folder.run("-n", "1", "--strategies=mirrored", exit_code=5).text


def test_the_table_sets_them_side_by_side(folder: Folder) -> None:
    _script(folder, mirrored={"slower": 2})
    lines = folder.run(*CNN, exit_code=0).text.splitlines()
    (head,) = [n for n, line in enumerate(lines) if "a small net trained under strategies" in line]
    rows = {line.split()[0]: line.split() for line in lines[head + 3 : head + 8]}
    assert rows["one_device"][1:5] == ["1", "10.1", "ms", "1.00"]
    assert rows["mirrored"][1:5] == ["4", "20.2", "ms", "2.00"]
    assert rows["mirrored"][-2:] == ["93.8", "yes"]
    assert rows["parameter_server"][-2:] == ["93.8", "-"]


def test_the_results_hold_what_training_gave(folder: Folder) -> None:
    ran = folder.run(*CNN, "--strategies=multi_worker_mirrored", "--ranks=2", exit_code=0)
    (case,) = _by_strategy(ran).values()
    (launch,) = case["launches"]
    assert launch["training"]["accuracy"] == 0.9375
    assert list(launch["training"]["last_digests"]) == [
        "worker 0, replica 0",
        "worker 1, replica 0",
    ]
    assert len(launch["samples_s"]) == len(launch["training"]["epochs_s"]) - 1


def test_junit_has_what_training_gave_and_no_rates(folder: Folder) -> None:
    ran = folder.run(*CNN, "--strategies=mirrored", exit_code=0)
    found = ran.properties("143656")
    assert found["accuracy"] == "0.9375"
    assert {"median_s", "epoch_s", "first_epoch_s"} < set(found)
    assert "busbw_gb_per_s" not in found


@pytest.mark.exhaustive
def test_each_has_a_baseline_file_by_ranks_and_processes(folder: Folder) -> None:
    folder.with_baselines(*CNN, "--ranks=2")
    assert {"/".join(path.parts[-2:]) for path in folder.baseline_files} == {
        "1r/fake.cnn_step.all_reduce.one_device.json",
        "2r/fake.cnn_step.all_reduce.mirrored.json",
        "2r/fake.cnn_step.all_reduce.central_storage.json",
        "2r-1h2p/fake.cnn_step.all_reduce.multi_worker_mirrored.json",
        "2r-1h2p/fake.cnn_step.all_reduce.parameter_server.json",
    }


@pytest.mark.exhaustive
def test_one_that_got_slower_fails_alone(folder: Folder) -> None:
    _script(folder)
    folder.with_baselines(*CNN, "--ranks=2", "--launches=5")
    _script(folder, central_storage={"slower": 6})
    found = _outcomes(folder.run(*CNN, "--ranks=2", "--launches=5", exit_code=1))
    assert [name for name, outcome in found.items() if outcome == "REGRESSED"] == [
        "central_storage"
    ]
    assert found["mirrored"] == "PASS"


def test_ranks_that_end_with_other_weights_fail(folder: Folder) -> None:
    _script(folder, multi_worker_mirrored={"disagree": True})
    ran = folder.run(*CNN, "--ranks=2", exit_code=1)
    case = _by_strategy(ran)["multi_worker_mirrored"]
    assert case["outcome"] == "FAILED"
    assert case["failure"]["kind"] == "WRONG_RESULT"
    assert "the weights of worker 1, replica 0 differ from those of worker 0" in case["text"]


@pytest.mark.exhaustive
def test_updates_that_the_weights_did_not_see_fail(folder: Folder) -> None:
    _script(folder, one_device={"lose_updates": 1})
    case = _by_strategy(folder.run(*CNN, exit_code=1))["one_device"]
    assert "the variables saw 219 updates in 20 epochs, expected 220 in 20" in case["text"]


def test_ranks_whose_gradients_nobody_adds_up_fail(folder: Folder) -> None:
    _script(folder, mirrored={"reductions": {}})
    ran = folder.run(*CNN, "--strategies=mirrored", exit_code=1)
    assert _by_strategy(ran)["mirrored"]["failure"]["kind"] == "NOT_A_COLLECTIVE"


def test_a_server_that_is_killed_fails_its_case_and_no_other(folder: Folder) -> None:
    folder.script(roles={"ps 0": "kill", "worker 1": "kill"})
    ran = folder.run(*CNN, "--strategies=parameter_server,mirrored", "--ranks=2", exit_code=1)
    cases = _by_strategy(ran)
    assert cases["parameter_server"]["failure"]["kind"] == "KILLED"
    assert cases["mirrored"]["outcome"] == "NO_BASELINE"
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_one_that_takes_too_long_fails_with_its_deadline(folder: Folder) -> None:
    _script(folder, mirrored={"then": "hang"})
    ran = folder.run(*CNN, "--strategies=mirrored", "--case-timeout=1", exit_code=1)
    assert _by_strategy(ran)["mirrored"]["failure"]["kind"] == "TIMEOUT"


def test_ranks_that_do_not_share_a_batch_are_a_usage_error(folder: Folder) -> None:
    ran = folder.run(*CNN, "--ranks=3", exit_code=4)
    assert "3 ranks do not share out the 128 examples" in ran.text


@pytest.mark.exhaustive
def test_with_two_stacks_in_turn_they_are_left_out_and_said(folder: Folder) -> None:
    ran = folder.run("-m", "training", "--against-env=X=1", exit_code=0)
    steps = {case["id"].split("-")[1]: case for case in ran.cases}
    assert steps["dense_step"]["outcome"] == "PASS"
    assert steps["cnn_step"]["outcome"] == "SKIPPED"
    assert "groups of processes are not measured in turn" in steps["cnn_step"]["text"]


@pytest.mark.exhaustive
def test_pruning_steps_of_one_kind_leaves_those_of_the_other(folder: Folder) -> None:
    folder.with_baselines("-m", "training")
    before = {path.name: path.read_text() for path in folder.baseline_files}
    dense = ("-m", "training(step='dense')")
    folder.run(*dense, "--prune-baselines", exit_code=0)
    folder.run(*CNN, "--strategies=mirrored", "--prune-baselines", exit_code=0)
    assert {path.name: path.read_text() for path in folder.baseline_files} == before
