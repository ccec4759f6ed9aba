"""``python -m tensorly_smp``: see :mod:`tensorly_smp.cli.parser`."""

import sys

from tensorly_smp.cli.parser import main

if __name__ == "__main__":
    sys.exit(main())
