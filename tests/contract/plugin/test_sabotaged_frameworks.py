"""Real frameworks whose all-reduce was replaced by a module of the user's environment: FAILED."""

from __future__ import annotations

import pytest

from tests.helpers import frameworks as real
from tests.helpers.session_folder import Folder

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]

# Python imports this module as it starts. Only in workers, so that pytest imports no framework.
SITE = """
import sys
if any("busbw" in word for word in sys.orig_argv) and "pytest" not in sys.orig_argv:
    import {framework}
    {code}
"""
JAX = "right = jax.lax.psum; jax.lax.psum = lambda values, axes: "
TENSORFLOW = (
    "context = tensorflow.distribute.ReplicaContext; right = context.all_reduce; "
    "context.all_reduce = lambda self, op, values: "
)


@pytest.mark.parametrize(
    ("framework", "code", "reason"),
    [
        (
            "jax",
            f"{JAX}jax.numpy.broadcast_to(right(values[:1], axes), values.shape)",
            "not a collective",
        ),
        ("jax", f"{JAX}right(values + 1, axes)", "not a collective"),
        ("jax", f"{JAX}jax.lax.pmax(values, axes)", "wrong result"),
        ("tensorflow", f"{TENSORFLOW}2 * values", "not a collective"),
        ("tensorflow", f"{TENSORFLOW}right(self, op, values + 1)", "wrong result"),
    ],
)
def test_a_case_fails_if_the_all_reduce_of_its_framework_returns_a_wrong_sum_or_no_sum(
    folder: Folder, framework: str, code: str, reason: str
) -> None:
    if not real.is_there(framework):
        pytest.skip(f"{framework} is not installed")
    (folder.path / "sitecustomize.py").write_text(SITE.format(framework=framework, code=code))
    folder.environment.setenv("PYTHONPATH", str(folder.path))
    ran = folder.pytest(
        *("perf", f"--frameworks={framework}", "--payloads=64K", "--launches=1", "--ranks=2"),
        exit_code=1,
    )
    assert ran.outcomes == {"64K": "FAILED"}
    (words,) = ran.failures
    assert f"{reason} in 1 of 1 launches" in words
