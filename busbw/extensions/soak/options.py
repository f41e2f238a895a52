"""The options of soaks and of the order of summation."""

from __future__ import annotations

from busbw.session import forms
from busbw.session.option import COMPARE, Option

SOAK = Option(
    name="soak",
    metavar="DURATION",
    parse=forms.duration,
    ini=False,
    help="Compare every result on every rank for this long, for example --soak=8h, to find "
    "silent data corruption. Nothing is timed",
)
REQUIRE_SIGNATURE = Option(
    name="require_signature",
    group=COMPARE,
    flag=True,
    help="Fail a case whose sums are computed in a different order than in its baseline, or in "
    "an order that varies between launches, so that the last bits of its results differ",
)
