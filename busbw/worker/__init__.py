"""The measuring process: standard library, numpy and one framework, nothing else.

Runs under any interpreter from Python 3.11 that has its framework. Gets cases and gives Runs or
Failures over a private channel. Never imports the driver, the plugin, the judge or the report.
"""
