"""Check a cluster: ``ray job submit ... -- python jobs/doctor.py --out URL ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["doctor", *sys.argv[1:]]))
