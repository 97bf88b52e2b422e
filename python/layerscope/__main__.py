"""The command-line program: ``python -m layerscope`` and the script ``layerscope``."""

import signal
import sys

from . import _layerscope


def main() -> int:
    """Run the program with the arguments of this process."""
    # The program handles Ctrl-C itself: it saves the run, which can be resumed later.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _layerscope.main(["layerscope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
