"""`python -m agents.cli`: the `targetnet` command of this interpreter."""

import sys

from agents.cli.main import main

sys.exit(main())
