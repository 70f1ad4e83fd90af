"""`python -m targetnet.agents.cli`: the `targetnet` command of this interpreter."""

import sys

from targetnet.agents.cli.main import main

sys.exit(main())
