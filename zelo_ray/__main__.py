"""Run a command: ``python -m zelo_ray annotate ...``."""

import sys

from zelo_ray.cli import main

sys.exit(main())
