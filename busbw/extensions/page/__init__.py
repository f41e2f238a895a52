"""Write sessions and their history as an HTML page, and as charts in SVG or PNG.

The page loads nothing from the network and runs no script. A chart is a frozen value with rows,
which the library Altair draws and a table shows as text. This extension judges nothing.
"""

COMMANDS = {"page": "page", "figure": "figure_command"}
OPTIONS = {"page": "options:PAGE"}
VIEWS = {"page": "page:page_view"}
