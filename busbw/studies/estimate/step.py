"""What communication leaves of a training step: efficiency, step time, buckets, bandwidth wanted.

Ts is a step's computing alone (forward and backward), Tt its communication, in seconds. Takes
times; knows no method, no link and no model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# Beyond any link there is or will be, and below any: where a search begins and ends, bytes/s.
_ANY_BANDWIDTH = (1e-6, 1e24)
_HALVINGS = 64


def efficiency(communication_s: float, compute_s: float) -> float:
    """P = Ts / (Ts + Tt) = 1 / (1 + Tt/Ts).

    n ranks do n times the work in Ts + Tt instead of Ts, so that the gain is n P. Source:
    "tensorflow分布式", formula (1), which prints a later form of it without the 1 +.
    """
    return 1 / (1 + communication_s / compute_s)


def communication_for_s(wanted_efficiency: float, compute_s: float) -> float:
    """Tt = (1-P)/P Ts, what a step may wait for: formula (1) solved for Tt, its (2)."""
    return (1 - wanted_efficiency) / wanted_efficiency * compute_s


def step_s(communication_s: float, compute_s: float, overlap: float = 0.0) -> float:
    """Tp = Ts + max(0, Tt - overlap x Ts): what could not be done meanwhile comes on top.

    `overlap` is the share of the computing, 0 to 1, at the end of which gradients are ready to be
    sent while the rest is computed: the backward pass, about 2/3 where it costs twice the forward
    one. This is the best there is: gradients that come, and go, evenly. Without it Tp = Ts + Tt.
    """
    return compute_s + max(0.0, communication_s - overlap * compute_s)


def bucketed_step_s(
    buckets: Sequence[float],
    seconds_of: Callable[[float], float],
    compute_s: float,
    overlap: float = 0.0,
) -> float:
    """The same with gradients that are sent in the sizes of `buckets`, in bytes and in this order.

    The backward pass, the last `overlap` of Ts, makes gradients evenly; a bucket is sent when it
    is full and the one before has gone, which takes `seconds_of` its bytes. The last bucket is
    ready when the computing ends, so that at least its time comes on top. Source: the schedule of
    S. Li et al., "PyTorch distributed: experiences on accelerating data parallel training", VLDB
    2020, section 3.2.3.
    """
    whole_bytes = math.fsum(buckets)
    made_bytes = 0.0
    free_s = 0.0
    for bucket in buckets:
        made_bytes += bucket
        ready_s = compute_s * (1 - overlap * (1 - made_bytes / whole_bytes))
        free_s = max(free_s, ready_s) + seconds_of(bucket)
    return free_s


def bandwidth_to_hide(moved_bytes: float, compute_s: float) -> float:
    """Bytes per second with which `moved_bytes`, both directions, take no longer than Ts.

    Source: "placement的估计", (received + sent) / time of an iteration.
    """
    return moved_bytes / compute_s


def least_bandwidth(step_of: Callable[[float], float], limit_s: float) -> float | None:
    """The least bandwidth in bytes/s whose step takes no longer than `limit_s`; None: none does.

    `step_of` gives the step's time for a bandwidth and never rises with it. For one link without
    latency and a ring this is formula (3) of "tensorflow分布式", 2 D P (n-1) / (n (1-P) Ts).
    """
    low, high = (math.log(end) for end in _ANY_BANDWIDTH)
    if step_of(math.exp(high)) > limit_s:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if step_of(math.exp(middle)) <= limit_s:
            high = middle
        else:
            low = middle
    return math.exp(high)


def buckets_of(gradients: Sequence[float], bucket_bytes: float) -> tuple[float, ...]:
    """Bytes of each bucket that is reduced at once, in the order in which they are full.

    `gradients` are bytes of each tensor in the order of the forward pass; the backward pass makes
    them from the last to the first. A bucket is full as soon as it holds `bucket_bytes`; a tensor
    is not cut, so that it may hold more, as in PyTorch's DistributedDataParallel (`bucket_cap_mb`,
    25 MiB if nobody says otherwise; without its smaller first bucket).
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
