"""Protocols compared on a cluster: ``ray job submit ... -- python jobs/protocols.py ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["protocols", *sys.argv[1:]]))
