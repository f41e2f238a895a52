"""--placement: over the input or beside it; left alone, in place where the collective can be."""

from __future__ import annotations

from .folder import Folder


def test_both_placements_are_two_cases_and_in_place_is_not_named(folder: Folder) -> None:
    ran = folder.updated("--placement=out_of_place,in_place")
    assert ran.results is not None
    assert [(c["id"], c["case"]["placement"]) for c in ran.results["cases"]] == [
        ("fake-out_of_place-default-float32-1M", "out_of_place"),
        ("fake-default-float32-1M", "in_place"),
    ]
    (path,) = folder.baseline_files
    assert path.read_text().count('"payload": "1M"') == 2


def test_the_default_and_its_name_are_one_case(folder: Folder) -> None:
    ran = folder.run("--placement=default,in_place", exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
    assert ran.results is not None and len(ran.results["cases"]) == 1
