"""The worker: the process that measures, which the driver starts.

A worker runs under any interpreter from Python 3.11 that has numpy and the framework, and imports
no other package. It receives cases over a private channel, and answers each with a Run or a
Failure. It never imports the driver, the plugin, the judge or the report.
"""
