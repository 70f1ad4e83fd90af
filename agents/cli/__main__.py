"""`python -m targetnet.agents.cli`: the `targetnet` command of this interpreter."""

import sys

from targetnet.rl_core.search_path import leave_current_directory

leave_current_directory()  # before the imports of everything else

from targetnet.agents.cli.main import main  # noqa: E402

sys.exit(main())
