"""The order of cases in a launch, and what each costs in relation to others."""

from __future__ import annotations

import random
from collections.abc import Sequence

from busbw.model import Case, OwnProcesses

LARGE_BYTES = 2**30
_FIXED_COST = 2**26
# Processes are started for such a case alone.
_GROUP_COST = 2**31


def shuffled(cases: Sequence[Case], shuffler: random.Random, *, large_first: bool) -> list[Case]:
    """`cases` in random order, but the large ones together at one end, the largest outermost.

    Large ones of one launch and of the next then meet, and each finds what the one before
    released. Memory that was in use a moment ago is there at once; what a virtual machine gave back
    to its host in between comes back at half a GiB a second (seen), which would be most of the
    session.
    """
    small = [case for case in cases if bytes_of(case) < LARGE_BYTES]
    large = [case for case in cases if bytes_of(case) >= LARGE_BYTES]
    shuffler.shuffle(small)
    shuffler.shuffle(large)
    large.sort(key=bytes_of, reverse=large_first)
    return large + small if large_first else small + large


def bytes_of(case: Case) -> int:
    """The payload on all ranks."""
    return case.payload_bytes * case.ranks


def cost(case: Case) -> int:
    """What a case costs in relation to others: much is fixed, the rest goes with the bytes."""
    if isinstance(case.workload, OwnProcesses):
        return _GROUP_COST
    return _FIXED_COST + case.payload_bytes
