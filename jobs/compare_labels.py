"""Compare labels where they lie: ``ray job submit ... -- python jobs/compare_labels.py``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # this folder: no file beside this one stands in for a library

from zelo_ray.cli import main

sys.exit(main(["compare-labels", *sys.argv[1:]]))
