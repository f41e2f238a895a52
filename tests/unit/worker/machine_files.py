"""Files of /proc of a machine that does not exist."""

from __future__ import annotations

from pathlib import Path

_KIB_OF_GIB = 2**20


def put(path: Path, text: object) -> None:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def make_machine(root: Path, *, resident_gib: int = 2, groups: str = "") -> Path:
    """Write the files of a machine of 100 GiB, of which 60 are free, and of this process.

    `groups` are its control groups.
    """
    put(
        root / "proc/meminfo",
        f"MemTotal:       {100 * _KIB_OF_GIB} kB\nMemFree:        1024 kB\n"
        f"MemAvailable:   {60 * _KIB_OF_GIB} kB\nHugePages_Total:       0",
    )
    peak_kib, resident_kib = (resident_gib + 1) * _KIB_OF_GIB, resident_gib * _KIB_OF_GIB
    put(
        root / "proc/self/status",
        f"Name:\tpython\nVmHWM:\t {peak_kib} kB\nVmRSS:\t {resident_kib} kB",
    )
    if groups:
        put(root / "proc/self/cgroup", groups)
    return root
