"""What communication in training steps should take by its curve, and what it took: a page.

`steps` reads what was measured, `row` has the figures of one case, `page` says where the prediction
holds. Measures nothing.
"""

from .command import ORDER, add_to

__all__ = ["ORDER", "add_to"]
