"""Several hosts: `--hosts` reaches them by ssh (execnet), `--cluster` through a Dask scheduler.

A session sends busbw as a zip file, so that no host needs it installed. On each host one Host
starts worker processes, as a session does on its own machine. What carries requests to the Hosts is
an Engine: `over_ssh` or `over_dask`.
"""

HOOKS = {"hosts_of": "settings:hosts_of", "check_host": "settings:check_alone"}
OPTIONS = {
    "hosts": "options:HOSTS",
    "host_python": "options:HOST_PYTHON",
    "host_env": "options:HOST_ENV",
    "cluster": "options:CLUSTER",
    "cluster_trust_network": "options:CLUSTER_TRUST_NETWORK",
}
