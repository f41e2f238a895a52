"""Write sessions and their history as an HTML page, and as charts in SVG or PNG.

The page loads nothing from the network and runs no script. A chart is an immutable object with
rows of values, which the library Altair draws. This extension judges nothing.
"""

from busbw.session.option import Option, parse_text

PAGE = Option(
    name="page",
    arguments={
        "type": parse_text,
        "metavar": "FILE",
        "help": "Write an HTML page with tables and charts of the session, and of its history if "
        "it has one, to FILE. Needs busbw[page]",
    },
)

COMMANDS = {"page": "page", "figure": "figure_command"}
OPTIONS = {"page": "PAGE"}
VIEWS = {"page": "page:page_view"}
