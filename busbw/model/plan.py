"""How hard to measure, and what to do beside it: neither changes what a case is."""

from __future__ import annotations

from dataclasses import dataclass

from .case import Case
from .words import MIB, Extra, payload_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How hard to measure. Never changes what is measured.

    A case is sampled until it has `samples` samples, or at least two and `budget_s` seconds
    of sampling are over. The anchor is sampled beside it for `anchor_budget_s` seconds, once at
    least; 0: not at all.
    """

    launches: int = 3
    samples: int = 10
    min_sample_s: float = 0.01
    budget_s: float = 0.12
    anchor_budget_s: float = 0.03
    timeout_s: float = 120.0
    seed: int = 0
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """More work than the case asks for, really done, so that the gate can be tried.

    The amount is in seconds, seconds per byte of payload, or a `share` of the case's own time
    (`delay`, `sleep`), a `share` of the payload (`payload`), or bytes (`memory`). Without
    `payloads` it applies to all of them.
    """

    extra: Extra
    seconds: float | None = None
    seconds_per_byte: float | None = None
    share: float | None = None
    limit_bytes: int | None = None
    payloads: tuple[int, ...] = ()

    def applies_to(self, case: Case) -> bool:
        """Whether `case` is one of those that it is for."""
        return not self.payloads or case.payload_bytes in self.payloads

    def delay_s(self, without_s: float, payload_bytes: int) -> float:
        """How much longer what takes `without_s` is to take."""
        return (
            (self.seconds or 0.0)
            + (self.seconds_per_byte or 0.0) * payload_bytes
            + (self.share or 0.0) * without_s
        )

    @property
    def text(self) -> str:
        """As it is asked for, such as ``delay:5%@1M``."""
        if self.share is not None:
            amount = f"{100 * self.share:g}%"
        elif self.seconds is not None:
            amount = f"{1e6 * self.seconds:g}us"
        elif self.seconds_per_byte is not None:
            amount = f"{1e6 * MIB * self.seconds_per_byte:g}us/M"
        else:
            amount = payload_text(self.limit_bytes or 0)
        where = "+".join(map(payload_text, self.payloads))
        return f"{self.extra.value}:{amount}" + (f"@{where}" if where else "")
