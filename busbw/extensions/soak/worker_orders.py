"""The names of orders of additions, and the text of a summation-order signature."""

from __future__ import annotations

import re
from typing import Annotated

# The orders of additions that a signature names, the first as the least bit of its mask.
RING = "ring"
ORDERS = ("ranks in turn", "recursive doubling", "recursive halving", "binary tree", RING)
# The orders that give the same bits cannot be told apart; or no known order gives these bits.
ANY_ORDER, UNKNOWN_ORDER = "any order", "another order"


def check_signature(text: str) -> None:
    """Raise ValueError unless `text` is empty or such as ``5e1c09af ring or binary tree``."""
    bits, _, words = text.partition(" ")
    named = [order for order in ORDERS if order in words.split(" or ")]
    is_order = words in (ANY_ORDER, UNKNOWN_ORDER) or (named and words == " or ".join(named))
    if text and not (is_order and re.fullmatch("[0-9a-f]{8}", bits)):
        raise ValueError(
            "expected a signature, 8 hexadecimal digits and the orders of additions, such as "
            f"'5e1c09af ring', got {text[:60]!r}"
        )


Signature = Annotated[str, check_signature]
