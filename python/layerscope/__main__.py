"""The command line program: ``python -m layerscope`` and the script ``layerscope``."""

import signal
import sys

from . import _layerscope


def main() -> int:
    """Runs the program on the arguments of this process."""
    # The program has its own answer to Ctrl-C: save, and go on another time.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _layerscope.main(["layerscope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
