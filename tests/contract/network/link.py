"""What an all-reduce must cost over a link: derived from gloo's source, fitted to no measurement.

What a session measures over the relay is held against this. It may not be adjusted to what was
measured: a term is added only where the source of what runs has it.

**What runs.** JAX on CPUs calls gloo with its ring (xla/backends/cpu/collectives/
gloo_communicator.cc; gloo/allreduce.cc, `ring`; gloo/transport/tcp/pair.cc). With n ranks and a
payload of S bytes:

- The payload is n chunks of m segments of s = S / (n m) bytes; m is 2, and more where a segment
  would have more than 1 MiB (S > 2 n MiB).
- A reduce-scatter sends K = (n - 1) m segments to one neighbour and receives as many from the
  other; an all-gather does it once more. It begins when the reduce-scatter has ended.
- Two segments are under way at a time: operation i begins when segment i - 2 has arrived.
- A segment is sent only after its receiver has said that it waits for it: a notice of 40 bytes
  takes the link once before the data take it once the other way. Every operation costs a round
  trip.

**The link.** One way takes d seconds. A sender's bucket holds b bytes and is filled with r bytes
per second, of which (MTU - 52) / MTU are TCP's payload: r below. What was idle sends b bytes at
once; x bytes are gone (x - b) / r after their beginning. All ranks do the same at the same time.

**Small payloads** (2 s <= b). Every pair of segments takes 2 d, and there are n - 1 pairs in each
of two phases:

    t = 4 (n - 1) d                                                     latency

**n = 2, up to 4 MiB.** Each phase has one pair, which leaves after d and has
arrived at 2 d + (2 s - b) / r, where 2 s = S / 2:

    t = 4 d + max(0, S - 2 b) / r                                       1 / bandwidth = 1 / r

**n = 2, above.** The notice for segment i waits behind segment i - 1 in the same connection: the
link is idle for d before every segment but the first two, and the bucket is full then (b < d r). A
segment of 1 MiB takes d + (s - b) / r instead of s / r:

    1 / bandwidth = 1 / r + (d - b / r) / 1 MiB

**n > 2.** Notices go to the neighbour that sends, data to the other: not in one connection, but in
one queue of the host. Where s / r < 2 d the round trip limits, and the pairs follow each other:
each takes 2 d + s / r and the last segment s / r more. Where s / r > 2 d the link limits, and all
K segments leave one after the other, after d:

    t = 2 ((n - 1) (2 d + s / r) + s / r) = 4 (n - 1) d + S / r         S < 4 n d r
    t = 2 (2 d + K s / r)                 = 4 d + 2 (n - 1) / n S / r   S > 4 n d r

less what the bucket saves. Both are equal at S = 4 n d r; for n = 2 they are the same. So latency
and bandwidth that are fitted to all payloads are between the two, as `curve` fits them.

**Several ranks per process, along the hosts.** k groups of one rank per host run at once and share
each link: r / k and b / k for each.

**Neglected.** Copying and adding (a few GB/s: 1 % of the link's time); a thread's wake-up and the
relay's lateness (0.1 to 0.2 ms in each passage of the link, of 5 ms); acknowledgements and notices
as bytes; that a bucket of one packet, filled late, gives 2 % less than r; that groups which share
a link need not take turns evenly; and the difference in time between ranks. The window is never
full: its first 10 packets are more than 2 d r.

TensorFlow's ring is not here: its segments are answers of gRPC, whose windows grow with estimates
of the link, and follow from no property of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import curve_fit

MTU_BYTES = 60000
# IPv4 20, TCP 20 and its time stamps 12.
_HEADER_BYTES = 52
_LARGEST_SEGMENT_BYTES = 2**20
_IN_FLIGHT = 2
# What is before a notice of another connection: of one with much to send a packet waits in the
# host's queue, and the rest in the connection (tcp_limit_output_bytes in `namespaces`).
_QUEUED_BYTES = MTU_BYTES


class Curve(NamedTuple):
    """The time of a payload is `latency_s` + payload / `bandwidth_bytes_per_s`."""

    latency_s: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A host's connection: seconds one way, bytes per second, and bytes that may leave at once."""

    delay_s: float
    bytes_per_s: float
    burst_bytes: float

    @property
    def payload_bytes_per_s(self) -> float:
        """What is left of the rate without headers."""
        return self.bytes_per_s * (MTU_BYTES - _HEADER_BYTES) / MTU_BYTES

    def shared(self, groups: int) -> Link:
        """Return what each of `groups` has that send at the same time."""
        return Link(
            delay_s=self.delay_s,
            bytes_per_s=self.bytes_per_s / groups,
            burst_bytes=self.burst_bytes / groups,
        )


CABLE = Link(delay_s=0.005, bytes_per_s=25e6, burst_bytes=60100)


@dataclass(kw_only=True, slots=True)
class _Sender:
    """A host's queue: when its bucket is full again, and when its segments came and left.

    All times are those of one rank; every other rank has the same.
    """

    link: Link
    full_s: float = -math.inf
    sent: list[tuple[float, float]] = field(default_factory=list)

    def send(self, size: float, handed_s: float) -> float:
        """Return when the last byte of a segment leaves that is handed over at `handed_s`."""
        rate = self.link.payload_bytes_per_s
        self.full_s = max(self.full_s, handed_s) + size / rate
        before_s = self.sent[-1][1] if self.sent else -math.inf
        left_s = max(handed_s, before_s, self.full_s - self.link.burst_bytes / rate)
        self.sent.append((handed_s, left_s))
        return left_s

    def send_notice(self, now_s: float, is_same_connection: bool) -> float:
        """Return when a notice leaves: after the segments handed over by now, or a part of them."""
        before_s = max(
            (left_s for handed_s, left_s in self.sent if handed_s <= now_s), default=now_s
        )
        if not is_same_connection:
            before_s = min(before_s, now_s + _QUEUED_BYTES / self.link.payload_bytes_per_s)
        return max(now_s, before_s)


def all_reduce_s(link: Link, ranks: int, payload_bytes: int, groups: int = 1) -> float:
    """Return the seconds of gloo's ring over hosts with one rank each, for all `groups` at once."""
    segments = max(_IN_FLIGHT, math.ceil(payload_bytes / (ranks * _LARGEST_SEGMENT_BYTES)))
    size = payload_bytes / (ranks * segments)
    sender = _Sender(link=link.shared(groups))
    reduced_s = _phase_end_s(sender, ranks, (ranks - 1) * segments, size, 0.0)
    return _phase_end_s(sender, ranks, (ranks - 1) * segments, size, reduced_s)


def _phase_end_s(sender: _Sender, ranks: int, count: int, size: float, start_s: float) -> float:
    """Return when the last of `count` segments arrives, each received from another sender."""
    arrived_s: list[float] = []
    begun_s = start_s
    for number in range(count):
        if number >= _IN_FLIGHT:
            begun_s = max(begun_s, arrived_s[number - _IN_FLIGHT])
        noticed_s = sender.send_notice(begun_s, ranks == 2) + sender.link.delay_s
        arrived_s.append(sender.send(size, noticed_s) + sender.link.delay_s)
    return arrived_s[-1]


def curve(link: Link, ranks: int, payloads: Iterable[int], groups: int = 1) -> Curve:
    """Latency and bandwidth of these payloads, fitted to the formula as to what is measured."""
    return fit({size: all_reduce_s(link, ranks, size, groups) for size in payloads})


def fit(times_s: Mapping[int, float]) -> Curve:
    """Fit latency and bandwidth to the logarithms of times, so that each size weighs the same.

    The soft absolute loss keeps an outlier from moving the curve.
    """
    sizes, times = np.array([*times_s]), np.array([*times_s.values()])

    def log_time(size: Any, log_latency: float, log_bandwidth: float) -> Any:
        return np.log(np.exp(log_latency) + size / np.exp(log_bandwidth))

    first = (math.log(min(times)), math.log(max(sizes) / max(times)))
    robust = {"method": "trf", "loss": "soft_l1", "f_scale": 0.01}
    logs, _ = curve_fit(log_time, sizes, np.log(times), p0=first, **robust)
    return Curve(*map(math.exp, logs))
