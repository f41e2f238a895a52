"""`python -m busbw COMMAND`: the door to the commands, and nothing else."""

import sys

from busbw.commands import main

sys.exit(main())
