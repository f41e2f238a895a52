"""What the names of folders say of a recording: its payload and the slice it was made on.

Without a rule of the user's, the naming of the TPU v2 table's project is understood:
`mnist_tpuv2n8_bs1024_scale-256` is 1M / 256 on a v2-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.metrics import parse_payload
from busbw.model import MIB

_SCALED = re.compile(r"tpu(?:v2n)?(?P<cores>\d+)a?_bs\d+_(?P<sign>-?)scale(?P<scale>-?\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The rules of one run of the command."""

    payload_bytes: int | None = None
    payload_from: re.Pattern[str] | None = None
    slice_from: re.Pattern[str] | None = None

    def payload(self, names: Sequence[str]) -> int | None:
        """The payload in bytes; None if no rule says it. Raises ValueError for what is no size."""
        if self.payload_bytes is not None:
            return self.payload_bytes
        if self.payload_from is not None:
            match = _first(self.payload_from, names)
            return parse_payload(match["payload"] or "") if match else None
        match = _first(_SCALED, names)
        return _scaled(match["sign"], int(match["scale"])) if match else None

    def slice(self, names: Sequence[str]) -> str:
        """The slice; "" if no rule says it."""
        if self.slice_from is not None:
            match = _first(self.slice_from, names)
            return (match["slice"] or "") if match else ""
        match = _first(_SCALED, names)
        return f"v2-{match['cores']}" if match else ""


def pattern(text: str, group: str) -> re.Pattern[str]:
    """The regular expression with the named group `group`; raises ValueError for any other."""
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    if group not in compiled.groupindex:
        raise ValueError(f"{text!r} has no group (?P<{group}>...)")
    return compiled


def _first(rule: re.Pattern[str], names: Sequence[str]) -> re.Match[str] | None:
    return next((match for name in names if (match := rule.search(name))), None)


def _scaled(sign: str, scale: int) -> int | None:
    """Scale 16 is 16M; -16, which some folders write before the word, is 1M / 16."""
    if scale == 0:
        return None
    return (MIB // abs(scale) or None) if sign or scale < 0 else scale * MIB
