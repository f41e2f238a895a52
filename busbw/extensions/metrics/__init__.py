"""Write a session as metrics in the text format of Prometheus (`--metrics`)."""

OPTIONS = {"metrics": "options:METRICS"}
VIEWS = {"metrics": "options:metrics_view"}
