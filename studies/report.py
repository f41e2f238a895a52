"""The report of a study: Markdown tables, the machine, published figures, and failed checks."""

import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PUBLISHED_FILE = "published.all_reduce.marsggbo-2019.json"
_PACKAGES = ("jax", "libtpu", "tensorflow")


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a study: its lines of Markdown, and a sentence for each check that failed."""

    lines: Sequence[str]
    failures: Sequence[str] = ()


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table with the titles `head`.

    All columns except the first are aligned to the right.
    """
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def machine_line() -> str:
    """Return a line with the processor, the number of cores, and the versions of the frameworks."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    processor = model[1] if model else platform.machine()
    packages = [
        package for package in importlib.metadata.distributions() if package.name in _PACKAGES
    ]
    versions = sorted({f"{package.name} {package.version}" for package in packages})
    python = f"Python {platform.python_version()}"
    return f"Machine: {processor}, {os.cpu_count()} cores; {', '.join([python, *versions])}"


def payload_text(size_bytes: int) -> str:
    """Return a payload in bytes as a text such as `512K` or `1M`."""
    return f"{size_bytes // 1024**2}M" if size_bytes % 1024**2 == 0 else f"{size_bytes // 1024}K"


def published_rates(ranks: int) -> dict[str, str]:
    """Return the published rates of an all-reduce on a slice of TPU v2, by payload.

    `ranks` is the number of cores of the slice. A rate is a text in GB/s, or `OOM` if the memory
    ran out.
    """
    path = ROOT / "baselines" / "tpu-v2" / f"{ranks}r" / _PUBLISHED_FILE
    rates = json.loads(path.read_text())["algbw_gb_per_s"]
    return {payload: "OOM" if rate is None else f"{rate:.4g}" for payload, rate in rates.items()}
