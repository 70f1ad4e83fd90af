"""The current directory, which `python -m` puts first on the path of modules."""

# os and sys are loaded: any other module would still be looked for in the current directory.
import os
import sys


def leave_current_directory() -> None:
    """Takes it off `sys.path`, where each file of it could take the place of a module.

    It stays if this package lies in it, as in a checkout: then its code was chosen.
    """
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:  # it was removed, and Python put nothing there
        return
    (package,) = sys.modules[__name__.partition(".")[0]].__path__
    lies_here = os.path.dirname(package) == here  # noqa: PTH120
    if not sys.flags.safe_path and sys.path[0] in ("", here) and not lies_here:
        del sys.path[0]
