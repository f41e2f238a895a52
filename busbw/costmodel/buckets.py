"""Gradients cut into buckets, each of which is reduced at once."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model import MIB

# What PyTorch's DistributedDataParallel takes where nobody says otherwise.
USUAL_BUCKET_BYTES = 25 * MIB


def buckets_of(gradients: Sequence[float], bucket_bytes: float) -> tuple[float, ...]:
    """Bytes of each bucket, in the order in which they are full.

    `gradients` are bytes of each tensor in the order of the forward pass; the backward pass makes
    them from the last to the first. A bucket is full as soon as it holds `bucket_bytes`; a tensor
    is not cut, so that it may hold more, as in PyTorch's DistributedDataParallel (`bucket_cap_mb`,
    without its smaller first bucket).
    """
    full: list[float] = []
    held_bytes = 0.0
    for gradient in reversed(gradients):
        held_bytes += gradient
        if held_bytes >= bucket_bytes:
            full.append(held_bytes)
            held_bytes = 0.0
    return (*full, held_bytes) if held_bytes else tuple(full)


def even_buckets(payload_bytes: float, bucket_bytes: float) -> tuple[float, ...]:
    """The same where tensors are not known: full buckets, and the rest last."""
    count = int(payload_bytes // bucket_bytes)
    rest_bytes = payload_bytes - count * bucket_bytes
    return (bucket_bytes,) * count + ((rest_bytes,) if rest_bytes > 0 else ())
