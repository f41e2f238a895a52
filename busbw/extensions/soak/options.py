"""The options `--soak` and `--require-signature`, which is about the order of summation."""

from __future__ import annotations

from busbw.session.option import COMPARE_GROUP, Option, argument_type, parse_seconds

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@argument_type
def _parse_duration(text: str) -> float:
    """Return the number of seconds in a duration such as ``90s``, ``10m`` or ``8h``.

    Raises ValueError if the unit is not s, m or h, or if the number is wrong.
    """
    if text[-1:] not in _UNITS_S:
        raise ValueError(f"expected a duration such as 90s, 10m or 8h, got {text!r}")
    return parse_seconds(text[:-1]) * _UNITS_S[text[-1:]]


SOAK = Option(
    name="soak",
    arguments={
        "type": _parse_duration,
        "metavar": "DURATION",
        "help": "Compare every result on every rank for this long, for example --soak=8h, to find "
        "silent data corruption. Nothing is timed",
    },
    # A soak has no times, and always runs out of place.
    excludes=(
        "launches",
        "time_budget",
        "fail_above",
        "against",
        "against_env",
        "try_env",
        "inject",
        "accept_regression",
        "require_baselines",
        "require_signature",
        "clock",
        "placement",
        "program",
        "update_baselines",
        "prune_baselines",
    ),
    exclusion_reason="which takes no times",
)
REQUIRE_SIGNATURE = Option(
    name="require_signature",
    group=COMPARE_GROUP,
    arguments={
        "action": "store_true",
        "help": "Fail a case whose sums are computed in a different order than in its baseline, or "
        "in an order that varies between launches, so that the last bits of its results differ",
    },
)
