"""What can go wrong. Every error is one line saying what, where and what to do."""

from __future__ import annotations


class Error(Exception):
    """Anything that Layerscope refuses or fails to do."""


class UsageError(Error, ValueError):
    """The request itself makes no sense: a setting, a shape, a type."""


class ModelError(Error):
    """The checkpoint cannot be used."""


class CorpusError(Error):
    """The text cannot be used."""


class RefusedError(Error):
    """The work was refused before it began: not enough memory, or things that do not belong together."""


class Interrupted(Error, KeyboardInterrupt):
    """Ctrl-C: everything up to now is saved, and the same call goes on from there."""

    #: The folder of the run that can be resumed, where there is one.
    out: str | None = None


class FileError(Error, OSError):
    """A file cannot be read or written, or is damaged."""


class DefectError(Error, RuntimeError):
    """Layerscope itself is wrong; please report it."""
