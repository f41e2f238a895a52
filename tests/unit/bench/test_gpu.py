"""The benchmark of one GPU: its parts on a CPU, and missing GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu import parts
from tests.helpers.frameworks import needs

ROOT = Path(__file__).parents[3]


def _ran(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "gpu", *options],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
    )


@pytest.mark.slow
def test_the_gpu_benchmark_without_a_gpu_says_that_no_gpu_exists(tmp_path: Path) -> None:
    done = _ran(f"--out={tmp_path / 'out'}", CUDA_VISIBLE_DEVICES="-1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bench: there is no NVIDIA GPU here")
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
@needs("jax")
def test_the_gpu_benchmark_finds_a_wrong_value_and_keeps_a_recording(
    tmp_path: Path,
) -> None:
    done = _ran("--device=cpu", "--parts=wrong,recording,fidelity,memory", f"--out={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    parts_by_name = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert parts_by_name["wrong"]["result"]["failure"].startswith("rank 1, element 8192: ")
    recording = parts_by_name["recording"]["result"]
    kept_bytes = (tmp_path / "recording.xplane.pb").stat().st_size
    assert kept_bytes == recording["bytes"] <= parts.MOST_RECORDED_BYTES
    assert "all_reduce" in {kernel["known_as"] for kernel in recording["rows"]}
    assert len(parts_by_name["fidelity"]["result"]["rows"]) == 6
    memory = parts_by_name["memory"]["result"]
    assert memory["fits_payload_bytes"] < 1.05 * memory["predicted_payload_bytes"]
    assert memory["fails_payload_bytes"] > 0.9 * memory["predicted_payload_bytes"]
