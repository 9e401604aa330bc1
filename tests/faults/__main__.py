"""`python -m tests.faults`: the long forms of the fault tests, each with a progress bar and a table at its end."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The tests are no package: their modules find each other in the folder of the tests.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from faults.commands import main

    sys.exit(main())
