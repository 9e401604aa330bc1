"""`python -m tests.upgrade`: keeps the wheel of a commit, and dumps of its databases, for the tests of upgrades."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The tests are no package: their modules find each other in the folder of the tests.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from upgrade.make import main

    sys.exit(main())
