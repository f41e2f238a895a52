"""The option, in a file of its own: it is imported before the steps of a session are.

An option with a value has a `type` in place of the `action`, such as `parse_text` of
`busbw.session.option`. The session reads an option of an extension as `options.extra[NAME]`.
"""

from busbw.session.option import Option

SHOW_LOAD = Option(
    name="show_load",
    arguments={"action": "store_true", "help": "Show the load of the machine after each case"},
)
