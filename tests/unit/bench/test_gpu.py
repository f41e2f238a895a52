"""The benchmark of one GPU: what it reads of NCCL and nvidia-smi; no part ends the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import command, recordings, surroundings, table
from bench.gpu.parts import Bench
from bench.processes import BenchError, answers, session
from busbw.model.words import Device
from tests.helpers.frameworks import needs
from tests.helpers.recordings import Line, Made, plane, space

ROOT = Path(__file__).parents[3]
LOG = """
host:71:71 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
host:71:71 [0] NCCL INFO NCCL version 2.28.3+cuda13.0
host:71:90 [0] NCCL INFO Channel 00/02 : 0 1
host:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
host:71:90 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
"""
SMI = """<nvidia_smi_log><driver_version>580.1</driver_version><gpu id="0">
<product_name>NVIDIA H100</product_name>
<ecc_errors><volatile><dram_correctable>0</dram_correctable><sram>N/A</sram></volatile></ecc_errors>
<processes><process_info><pid>7</pid></process_info></processes>
</gpu></nvidia_smi_log>"""


def test_the_transport_is_what_the_log_of_nccl_says() -> None:
    result = surroundings.of_log(LOG)
    assert result["text"] == "NCCL over loopback sockets"
    assert (result["ways"], result["nccl"]) == (["NET/Socket/0"], "2.28.3+cuda13.0")


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (LOG.replace("lo:127.0.0.1", "eth0:10.0.0.2"), "sockets within the host (eth0)"),
        (LOG.replace("NET/Socket/0", "P2P/CUMEM"), "P2P/CUMEM"),
        ("", "a transport that its log does not name"),
    ],
)
def test_another_transport_is_not_called_loopback(log: str, text: str) -> None:
    assert surroundings.of_log(log)["text"] == f"NCCL over {text}"


def test_errors_of_the_gpu_are_read_and_no_process_of_it() -> None:
    result = surroundings.gpus(SMI)
    assert result == {
        "driver": "580.1",
        "gpu 0": {
            "product_name": "NVIDIA H100",
            "ecc_errors/volatile/dram_correctable": "0",
        },
    }


def _bench(tmp_path: Path, **fields: Any) -> Bench:
    return Bench(device=Device.CPU, out=tmp_path, **fields)


def test_each_part_is_written_at_once_and_one_that_fails_ends_no_other(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def wrong(bench: Bench) -> dict[str, Any]:
        raise RuntimeError("no | device")

    def fidelity(bench: Bench) -> dict[str, Any]:
        seen.append([*json.loads((tmp_path / "gpu.json").read_text())["parts"]])
        row = {"ratio": [1.01, 0.99], "busbw_s": 1e-3, "by_hand_s": 1.1e-3}
        return {"1M": row, "16M": row}

    def memory(bench: Bench) -> dict[str, Any]:
        ends = {"fits_payload_bytes": 2**28, "fails_payload_bytes": 0, "said": "full"}
        result = {"limit_bytes": 2**30, "predicted_payload_bytes": 2**29, **ends}
        raise BenchError("it did not end", result)

    parts = {"wrong": wrong, "fidelity": fidelity, "memory": memory}
    result = command.run(_bench(tmp_path), parts)
    assert seen == [["wrong"]]
    assert result["parts"]["wrong"]["problem"] == "RuntimeError: no | device"
    page = (tmp_path / "gpu.md").read_text()
    assert page.startswith("Two processes on one CPU, gloo over loopback sockets: ")
    assert "**Failed:** RuntimeError: no \\| device" in page
    assert "| 1M | 1.01, 0.99 | 0.001 | 0.0011 |" in page
    assert "**Failed:** it did not end" in page and "- predicted_payload_bytes: 5368" in page
    again = command.run(_bench(tmp_path), {"wrong": lambda bench: {"planted": "a", "found": "b"}})
    assert [*again["parts"]] == ["wrong", "fidelity", "memory"]
    assert not again["parts"]["wrong"]["problem"]


def test_of_a_gpu_the_first_sentence_is_what_it_does_not_show() -> None:
    said = table.first_sentence({"device": "gpu", "transport": surroundings.of_log(LOG)})
    assert said == (
        "Two processes on one GPU, NCCL over loopback sockets: this shows that the path works and "
        "is not the bandwidth of a GPU or of NVLink."
    )


def test_no_part_begins_when_the_time_is_over(tmp_path: Path) -> None:
    bench = _bench(tmp_path, end_s=time.monotonic() - 1)
    result = command.run(bench, {"wrong": lambda bench: {}})
    assert result["parts"]["wrong"]["problem"].startswith("the time is over; name")


def test_a_session_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="the session did not end in 0 s: "):
        session(tmp_path, "sweep", "--frameworks=fake", timeout_s=0.2)


def test_a_process_that_fails_ends_the_other_and_is_the_reason(tmp_path: Path) -> None:
    words = ("import time; time.sleep(600)", "raise SystemExit('no device')")
    with pytest.raises(BenchError, match=r"^pair-1 ended with 1: no device$"):
        answers([(sys.executable, "-c", text) for text in words], tmp_path, "pair")
    with pytest.raises(BenchError, match=r"^pair-0 gave no answer in 0 s: it wrote nothing$"):
        answers([(sys.executable, "-c", words[0])], tmp_path, "pair", timeout_s=0.2)


def test_processes_answer_in_their_last_line(tmp_path: Path) -> None:
    words = [(sys.executable, "-c", f"print('a log'); print({number})") for number in (1, 2)]
    assert answers(words, tmp_path, "pair") == [1, 2]


def test_the_kernels_of_a_recording_are_told_with_what_they_are_known_as(tmp_path: Path) -> None:
    names = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "nccl_new_thing")
    events = [Made(name=name, offset_ps=10 * at, duration_ps=5) for at, name in enumerate(names)]
    content = space(plane("/device:GPU:0", [Line(name="Stream #1", events=events)]))
    (tmp_path / "one.xplane.pb").write_bytes(content)
    result = recordings.keep(tmp_path, tmp_path / "kept")
    known = {one["name"]: one["known_as"] for one in result["kernels"]}
    assert known == {names[0]: "all_reduce", names[1]: ""}
    assert (tmp_path / "kept").read_bytes() == content


def test_a_recording_that_is_too_large_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.xplane.pb").write_bytes(b"no recording")
    monkeypatch.setattr(recordings, "MOST_BYTES", 3)
    with pytest.raises(BenchError, match=r"^not kept: it is larger than 3 bytes cannot be read: "):
        recordings.keep(tmp_path, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


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
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = _ran(f"--out={tmp_path / 'out'}", CUDA_VISIBLE_DEVICES="-1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bench gpu: there is no NVIDIA GPU here")
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
@needs("jax")
def test_a_wrong_value_in_one_rank_is_found_and_a_recording_is_kept(tmp_path: Path) -> None:
    done = _ran("--device=cpu", "--parts=wrong,recording", f"--out={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert parts["wrong"]["result"]["found"].startswith("worker 1: rank 1, element 8192: ")
    result = parts["recording"]["result"]
    assert (tmp_path / result["file"]).stat().st_size == result["bytes"] <= recordings.MOST_BYTES
    assert {one["known_as"] for one in result["kernels"]} >= {"all_reduce"}


@pytest.mark.exhaustive
@needs("jax")
def test_it_is_compared_with_a_loop_by_hand_and_memory_ends_where_predicted(tmp_path: Path) -> None:
    done = _ran("--device=cpu", "--parts=fidelity,memory", f"--out={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert all(len(one["ratio"]) == 2 for one in parts["fidelity"]["result"].values())
    memory = parts["memory"]["result"]
    assert memory["fits_payload_bytes"] < 1.05 * memory["predicted_payload_bytes"]
    assert memory["fails_payload_bytes"] > 0.9 * memory["predicted_payload_bytes"]
