"""--reduce-ops: for collectives that reduce; each is a case and a line in the baseline."""

from __future__ import annotations

from .folder import Folder


def test_every_reduce_op_is_a_case_of_its_own_and_the_sum_is_not_named(folder: Folder) -> None:
    ran = folder.updated("--reduce-ops=sum,max,min")
    assert ran.results is not None
    assert [(c["id"], c["case"]["reduce_op"]) for c in ran.results["cases"]] == [
        ("fake-default-float32-1M", "sum"),
        ("fake-max-default-float32-1M", "max"),
        ("fake-min-default-float32-1M", "min"),
    ]
    (path,) = folder.baseline_files
    lines = path.read_text().splitlines()
    for reduce_op in ("sum", "max", "min"):
        assert sum(f'"reduce_op": "{reduce_op}"' in line for line in lines) == 1
    again = folder.run("--reduce-ops=max", exit_code=0)
    assert again.outcomes == {"1M": "PASS"}


def test_a_collective_that_reduces_nothing_has_none(folder: Folder) -> None:
    ran = folder.run("--collectives=all_reduce,permute", "--reduce-ops=max,min", exit_code=0)
    assert ran.results is not None
    assert [(c["case"]["collective"], c["case"]["reduce_op"]) for c in ran.results["cases"]] == [
        ("all_reduce", "max"),
        ("all_reduce", "min"),
        ("permute", "none"),
    ]


def test_an_unknown_reduce_op_is_a_usage_error_that_shows_what_there_is(folder: Folder) -> None:
    ran = folder.run("--reduce-ops=product", exit_code=4)
    assert ran.sentence.endswith("--reduce-ops: 'product'; accepted are sum, max, min")


def test_one_that_a_collective_has_not_is_a_usage_error(folder: Folder) -> None:
    ran = folder.run("--collectives=reduce_scatter", "--reduce-ops=max", exit_code=4)
    assert ran.sentence == "ERROR: busbw: reduce_scatter has no reduce op max; it has sum"


def test_one_that_a_named_framework_has_not_is_a_usage_error(folder: Folder) -> None:
    (folder.path / "tensorflow.py").write_text("raise AssertionError('not to be imported')\n")
    options = ("--frameworks=tensorflow", "--reduce-ops=min")
    ran = folder.pytest("perf", *options, "--collect-only", exit_code=4)
    assert ran.sentence == "ERROR: busbw: tensorflow has no reduce op min; it has sum"
