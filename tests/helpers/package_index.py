"""An index on this disk of one package: wheels that hold nothing but their version."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE = "busbw-made-up"


def written(folder: Path, versions: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for version in versions:
        stem = f"busbw_made_up-{version}"
        info = f"{stem}.dist-info"
        contents = {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{name},,\n" for name in (*contents, f"{info}/RECORD"))
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            for name, text in {**contents, f"{info}/RECORD": record}.items():
                wheel.writestr(name, text)
    return folder
