"""The worker: the process that imports a framework and measures, and that the driver starts.

A worker runs under any interpreter from Python 3.11 that has numpy and the framework, and imports
no other package. A worker receives cases over a private channel (a socket), and answers each case
with a Run or a Failure. A worker never imports the driver, the plugin, the judge or the report.
"""
