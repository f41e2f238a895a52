"""The published TPU v2 table, and what the compiler that is here makes of its programs: a page.

`command` has what is known of the table's source and compiles, `cell` is one payload on a slice,
`summary` what follows from the cells, `page` the tables. Measures nothing.
"""

from .command import ORDER, add_to

__all__ = ["ORDER", "add_to"]
