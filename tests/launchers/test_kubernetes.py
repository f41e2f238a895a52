"""Kubernetes: the index of a pod, and nothing else."""

from __future__ import annotations

import pytest

from busbw.launchers.base import LauncherError
from busbw.launchers.kubernetes import launched


def test_a_pod_of_an_indexed_job_has_a_rank_and_knows_no_other_pod() -> None:
    found = launched({"JOB_COMPLETION_INDEX": "3", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert found is not None
    assert (found.rank, found.count, found.host) == (3, None, "")
    assert found.unnamed == "JOB_COMPLETION_INDEX does not say which pod rank 0 is"


def test_a_pod_without_an_index_was_not_started_by_a_job() -> None:
    assert launched({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None


def test_an_index_that_is_no_number_is_refused() -> None:
    with pytest.raises(LauncherError, match="JOB_COMPLETION_INDEX='x'; accepted is a whole number"):
        launched({"JOB_COMPLETION_INDEX": "x"})
