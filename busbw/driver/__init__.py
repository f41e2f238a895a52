"""Start workers, send them requests, and kill workers that take too long.

This package knows no framework, no pytest and no verdict. It never imports the code of workers: it
starts an interpreter on a private folder with a copy of that code. A transport starts workers on
this host or on other hosts. A group has the workers of one launch. An executor ends all groups. A
schedule has the order of launches and cases.
"""
