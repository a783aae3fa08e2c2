"""Run a command on a cluster: ``ray job submit ... -- python jobs/run.py annotate INPUT ...``."""

import sys

if (here := __file__.rpartition("/")[0]) in sys.path:
    sys.path.remove(here)  # no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(sys.argv[1:]))
