"""``python -m tensorly_smp``: see :mod:`tensorly_smp.command_line`."""

import sys

from tensorly_smp.command_line import main

if __name__ == "__main__":
    sys.exit(main())
