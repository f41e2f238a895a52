"""One baseline file read by its name, wherever it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.baselines.document import BaselineError
from busbw.baselines.store import contents_of
from busbw.baselines.timed import Accepted, Occasion
from busbw.baselines.updates import Rules, save
from busbw.workloads.dense_step import DenseStep
from tests import build

from .written import written

OCCASION = Occasion(at=f"{build.DATE}T03:00:00Z")


def test_all_of_a_file_comes_back_with_its_key_also_what_is_out_of_memory(tmp_path: Path) -> None:
    key = build.key()
    accepted = [
        Accepted(key=key, measurement=build.measurement(1e-3), times_s=(1e-3, 3e-3, 2e-3)),
        Accepted(
            key=key,
            measurement=build.measurement(failures=(build.out_of_memory(),), payload_bytes=8192),
            times_s=(),
        ),
    ]
    saved = written(save, tmp_path, accepted, occasion=OCCASION, rules=Rules(budget=0.1))
    (path,) = {change.path for change in saved.changes}
    moved = path.rename(tmp_path / "elsewhere.json")
    contents = contents_of(moved)
    timed, lacking = contents.baselines
    assert contents.key == key
    assert timed.case == build.case()
    assert timed.level_s == pytest.approx(2e-3)
    assert lacking.oom and lacking.case.payload_bytes == 8192


def test_what_a_file_s_name_says_of_its_cases_is_kept_while_it_keeps_that_name(
    tmp_path: Path,
) -> None:
    measured = build.measurement(1e-3, step="dense")
    accepted = [Accepted(key=build.key(), measurement=measured, times_s=(1e-3,))]
    saved = written(save, tmp_path, accepted, occasion=OCCASION, rules=Rules(budget=0.1))
    (path,) = {change.path for change in saved.changes}
    (stored,) = contents_of(path).baselines
    assert stored.case == measured.case
    assert stored.case.workload == DenseStep()


def test_another_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(BaselineError, match=r"other\.json: this does not say what it is"):
        contents_of(path)
