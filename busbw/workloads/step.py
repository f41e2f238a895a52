"""What all training steps have in common: sums in place of float32, timed by the host."""

from __future__ import annotations

from busbw.model import MIB, Asked, GridError

# Gradients where nobody asked for payloads: computing takes long where they are large.
STEP_PAYLOADS = (1 * MIB, 4 * MIB, 16 * MIB)


def check_sums_in_place(kind: str, asked: Asked) -> None:
    """Raise GridError for what no step has.

    That is another collective than the all-reduce of sums in place of float32, another clock than
    the host's, and axes.
    """
    for what, given, accepted in (
        ("collective", asked.collectives, ("all_reduce",)),
        ("reduce op", asked.reduce_ops, ("sum",)),
        ("placement", asked.placements, ("default", "in_place")),
        ("dtype", asked.dtypes, ("float32",)),
        ("clock", (asked.clock,), ("default", "host")),
        ("axes", (asked.axes,), ("",)),
    ):
        for word in given:
            if word not in accepted:
                known = " or ".join(accepted) if any(accepted) else "none"
                raise GridError(f"a {kind} training step has no {what} {word}; it has {known}")
