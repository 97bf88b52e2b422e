"""Who does what on this machine."""

from __future__ import annotations

import os


def holder(path: str) -> int | None:
    """The process that has a file open."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if any(os.readlink(f"/proc/{name}/fd/{fd}") == path for fd in os.listdir(f"/proc/{name}/fd")):
                return int(name)
        except OSError:
            continue  # gone, or not ours
    return None
