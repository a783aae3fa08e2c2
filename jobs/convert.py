"""Write other formats where results lie: ``ray job submit ... -- python jobs/convert.py ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["convert", *sys.argv[1:]]))
