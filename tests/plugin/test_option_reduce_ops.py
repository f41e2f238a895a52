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
