"""Kubernetes: a pod of an indexed Job, such as those that a JobSet makes.

A pod knows its index and neither how many there are nor their names, which the manifest gives as
options. On TPUs GKE says more, in variables of the slice.
"""

from __future__ import annotations

from collections.abc import Mapping

from .base import Launched, whole

_RANK = "JOB_COMPLETION_INDEX"


def launched(environment: Mapping[str, str]) -> Launched | None:
    """The rank of this pod. Raises LauncherError where the index is no number."""
    if not environment.get(_RANK):
        return None
    return Launched(
        launcher="Kubernetes",
        rank=whole(environment, _RANK),
        count=None,
        job="",
        unnamed=f"{_RANK} does not say which pod rank 0 is",
    )
