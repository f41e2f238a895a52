"""All-gather by a ring: each rank ends with the parts of all.

The second half of a ring all-reduce, apart.
"""

from __future__ import annotations

from .cost import Cost, Placement
from .rings import ring_part


def all_gather(payload_bytes: float, placement: Placement) -> Cost:
    """(n-1) steps of S/n bytes: each rank sends and takes (n-1)/n S.

    Each rank lacks n-1 parts of S/n and has to take them; in a ring it passes on in each step the
    part that it took in the one before. `payload_bytes` is what each rank ends with. Source: as of
    `reduce_scatter`, whose steps these are without the adding up.
    """
    n = placement.ranks
    sent_bytes = (n - 1) / n * payload_bytes
    return Cost(
        parts=(ring_part(placement, steps=n - 1, sent_bytes=sent_bytes),), sent_bytes=sent_bytes
    )
