"""A published table of training with parameter servers, its rows run here: a page.

`command` has what is known of the table's source and trains, `page` sets both into tables and says
what follows.
"""

from .command import ORDER, add_to

__all__ = ["ORDER", "add_to"]
