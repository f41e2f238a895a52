"""Sessions and their history as an HTML page that loads nothing and runs no script, and as figures.

A figure is rows of values, which Altair draws and a table shows. Nothing here judges.
"""

COMMANDS = {"page": "page_command", "figure": "figure_command"}
OPTIONS = {"page": "options:PAGE"}
VIEWS = {"page": "output:page_view"}
