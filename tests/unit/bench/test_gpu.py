"""The benchmark of one GPU: the log of NCCL, the parts of the benchmark, and missing GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import processes
from bench.gpu import command, parts
from bench.gpu.parts import Bench
from bench.processes import BenchError
from busbw.model.words import Device
from tests.helpers.frameworks import needs

ROOT = Path(__file__).parents[3]
LOG = """
host:71:71 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
host:71:71 [0] NCCL INFO NCCL version 2.28.3+cuda13.0
host:71:90 [0] NCCL INFO Channel 00/02 : 0 1
host:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
host:71:90 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
"""


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (LOG, "NCCL version 2.28.3+cuda13.0 over NET/Socket/0 (lo)"),
        (LOG.replace("NET/Socket/0", "P2P"), "NCCL version 2.28.3+cuda13.0 over P2P (lo)"),
        ("", "NCCL over a transport that its log does not name ()"),
    ],
)
def test_the_gpu_benchmark_reads_the_transport_from_the_log_of_nccl(
    log: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "nccl-host-71.log").write_text(log)
    assert command.describe_transport(Bench(device=Device.GPU, output_folder=tmp_path)) == text


def test_the_gpu_benchmark_continues_after_a_part_that_fails_and_writes_each_part_at_once(
    tmp_path: Path,
) -> None:
    seen: list[list[str]] = []

    def wrong(bench: Bench) -> dict[str, Any]:
        raise RuntimeError("no | device")

    def fidelity(bench: Bench) -> dict[str, Any]:
        seen.append([*json.loads((tmp_path / "gpu.json").read_text())["parts"]])
        return {"rows": [{"payload": "1M", "ratio": 1.0123456}, {"payload": "16M", "text": "a"}]}

    def memory(bench: Bench) -> dict[str, Any]:
        raise BenchError("it did not end", {"predicted_payload_bytes": 2**29})

    bench = Bench(device=Device.CPU, output_folder=tmp_path)
    result = command.run_parts(bench, {"wrong": wrong, "fidelity": fidelity, "memory": memory})
    assert seen == [["wrong"]]
    assert result["parts"]["wrong"]["problem"] == "RuntimeError: no | device"
    assert result["transport"] == "gloo"
    assert result["parts"]["memory"]["problem"] == "BenchError: it did not end"
    assert result["parts"]["memory"]["result"] == {"predicted_payload_bytes": 2**29}
    again = command.run_parts(bench, {"wrong": lambda bench: {"planted": "a", "failure": "b"}})
    assert [*again["parts"]] == ["wrong", "fidelity", "memory"]
    assert not again["parts"]["wrong"]["problem"]


def test_the_gpu_benchmark_reports_a_process_that_fails_or_takes_too_long(tmp_path: Path) -> None:
    texts = ("import time; time.sleep(600)", "raise SystemExit('no device')")
    commands = [[sys.executable, "-c", text] for text in texts]
    with pytest.raises(BenchError, match=r"^pair-1 ended with 1: no device$"):
        processes.run_commands(commands, tmp_path, "pair", 60.0, os.environ)
    with pytest.raises(BenchError, match=r"^pair-0 did not end in 0 s: it wrote nothing$"):
        processes.run_commands(commands[:1], tmp_path, "pair", 0.2, os.environ)


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
