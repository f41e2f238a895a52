"""Pages of busbw in a real browser, Chromium: what they ask for, how they look, who can read them.

Nothing here runs but in `tox -e browser`, which sets BUSBW_BROWSER: elsewhere there may be neither
the browser nor what drives it. Here is no knowledge of how a page is made, but in `pages`.
"""
