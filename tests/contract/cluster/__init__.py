"""Sessions over several hosts: by an `ssh` that runs commands here, and by Dask workers here."""
