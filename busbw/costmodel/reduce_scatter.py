"""Reduce-scatter by a ring: each rank ends with the sum of its own n-th of the payload.

The first half of a ring all-reduce, apart.
"""

from __future__ import annotations

from .cost import Cost, Placement
from .rings import ring_part


def reduce_scatter(payload_bytes: float, placement: Placement) -> Cost:
    """(n-1) steps of S/n bytes: each rank sends and takes (n-1)/n S.

    For each n-th of the payload a partial sum has to leave n-1 ranks. In a ring each rank passes
    on, in each step, the partial sum that it just added its own part to; after n-1 steps each
    rank holds one complete sum. `payload_bytes` is what each rank begins with. Source: P. Patarasuk
    and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of
    Parallel and Distributed Computing 69, 2009.
    """
    n = placement.ranks
    sent_bytes = (n - 1) / n * payload_bytes
    return Cost(
        parts=(ring_part(placement, steps=n - 1, sent_bytes=sent_bytes),), sent_bytes=sent_bytes
    )
