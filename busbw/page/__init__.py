"""Sessions and nights as pictures, and as one HTML page that loads nothing and runs no script.

A chart is values (`chart`), which Vega-Lite draws (`vega`); `content` has the parts of a page as
values, and `page` decides what it says, also for `summary`. Nothing here judges or reads a file.
"""
