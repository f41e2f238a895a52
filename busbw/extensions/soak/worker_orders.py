"""The names of orders of summation, and the text of a signature."""

from __future__ import annotations

import re
from typing import Annotated

# The orders of summation that a signature names; an order's index is its bit in a mask.
RING = "ring"
ORDERS = ("ranks in turn", "recursive doubling", "recursive halving", "binary tree", RING)
# The names if all known orders give the bits of the result, and if no known order gives them.
ANY_ORDER, UNKNOWN_ORDER = "any order", "another order"


def check_signature(text: str) -> None:
    """Raise ValueError unless `text` is empty or a signature.

    A signature is the hash of a sum's result and the orders of summation that give this result,
    such as ``5e1c09af ring or binary tree``.
    """
    bits, _, words = text.partition(" ")
    named = [order for order in ORDERS if order in words.split(" or ")]
    is_order = words in (ANY_ORDER, UNKNOWN_ORDER) or (named and words == " or ".join(named))
    if text and not (is_order and re.fullmatch("[0-9a-f]{8}", bits)):
        raise ValueError(
            "expected a signature, 8 hexadecimal digits and the orders of additions, such as "
            f"'5e1c09af ring', got {text[:60]!r}"
        )


Signature = Annotated[str, check_signature]
