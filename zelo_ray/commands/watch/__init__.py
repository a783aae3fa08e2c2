"""Watch a run from another terminal or machine: ``zelo-ray watch DIR``."""
