"""An Environment key as a folder below that of the baselines.

Text only: nothing is read or written here.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from busbw.model import EnvironmentKey


def slug(text: str) -> str:
    """`text` as a file name: lower case, everything but letters, digits and dots is one hyphen."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def folder_of(key: EnvironmentKey) -> PurePosixPath:
    """Such as ``amd-epyc-2c/4r`` or ``tpu-v5-lite/16r-4x4-4h4p``."""
    kind = slug(key.device_kind) + (f"-{key.cores}c" if key.cores is not None else "")
    ranks = f"{key.ranks}r" + (f"-{key.mesh}" if key.mesh else "")
    if (key.hosts, key.processes) != (1, 1):
        ranks += f"-{key.hosts}h{key.processes}p"
    return PurePosixPath(kind, ranks)
