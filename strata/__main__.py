"""`python -m strata`."""

import sys

from strata.cli import main

if __name__ == "__main__":
    sys.exit(main())
