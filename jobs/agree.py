"""Measure labels where they lie: ``ray job submit ... -- python jobs/agree.py URL ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["agree", *sys.argv[1:]]))
