"""Compare labels where they lie: ``ray job submit ... -- python jobs/compare_labels.py``."""

import sys

from zelo_ray.cli import main

sys.exit(main(["compare-labels", *sys.argv[1:]]))
