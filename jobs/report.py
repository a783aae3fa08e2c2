"""Write the page of a large run: ``ray job submit ... -- python jobs/report.py URL``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["report", *sys.argv[1:]]))
