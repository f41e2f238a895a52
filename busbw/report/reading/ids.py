"""The ids of cases, such as ``jax-default-float32-4K``, as what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, Spec, Workload
from busbw.model.machine import file_name_of
from busbw.model.words import payload_text
from busbw.workloads import WORKLOADS
from busbw.workloads.collective import Collective

from .fields import DocumentError


def spec_of(name: str, case: Case | None, at: str) -> Spec:
    """What was asked for, of which a document has the id."""
    try:
        words, strategy, dtype, payload = name.rsplit("-", 3)
        payload_bytes = _payload_bytes(payload)
    except ValueError as error:
        raise DocumentError(
            f"{at}.id: expected an id such as jax-default-float32-4K, got {name!r:.60}"
        ) from error
    framework, *others = words.split("-")
    asked = Spec(
        framework=framework,
        payload_bytes=payload_bytes,
        workload=_workload(others),
        strategy=strategy,
        dtype=dtype,
    )
    if case is None:
        return asked
    return replace(
        asked,
        framework=case.framework,
        payload_bytes=case.payload_bytes,
        workload=case.workload,
        mesh=case.mesh if file_name_of(case.mesh) in others else "",
        clock=case.clock.value if case.clock.value in others else "default",
    )


def _workload(words: Sequence[str]) -> Workload:
    """The workload that the words of an id name, as far as they do: usual ones are left out."""
    kind = next((one for one in WORKLOADS if f"{one}_step" in words), Collective.kind)
    collective = next((one for one in COLLECTIVES if one in words), "all_reduce")
    return Workload.of_kind(kind)(collective=collective)


def _payload_bytes(text: str) -> int:
    """The inverse of `payload_text`. Raises ValueError."""
    units = {"K": 2**10, "M": 2**20}
    found = int(text.rstrip("KM")) * units.get(text[-1:], 1)
    if payload_text(found) != text:
        raise ValueError(f"no payload: {text!r:.60}")
    return found
