"""Annotate on a cluster: ``ray job submit ... -- python jobs/annotate.py INPUT --out URL ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["annotate", *sys.argv[1:]]))
