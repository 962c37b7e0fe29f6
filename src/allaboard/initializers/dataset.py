"""Fetch a data set into the pod: `python -m allaboard.initializers.dataset`."""

from __future__ import annotations

import os
import sys

from allaboard.initializers.fetching import main

if __name__ == "__main__":
    sys.exit(main("dataset", os.environ))
