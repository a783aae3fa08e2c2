"""Annotate on a cluster: ``ray job submit ... -- python jobs/annotate.py INPUT --out URL ...``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # this folder: no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["annotate", *sys.argv[1:]]))
