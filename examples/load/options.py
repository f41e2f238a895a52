"""The option, in a file of its own: it is imported before the steps of a session are."""

from busbw.session.option import Option

SHOW_LOAD = Option(
    name="show_load",
    arguments={"action": "store_true", "help": "Show the load of the machine after each case"},
)
