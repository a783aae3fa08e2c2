"""Write the page of a large run: ``ray job submit ... -- python jobs/report.py URL``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # this folder: no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["report", *sys.argv[1:]]))
