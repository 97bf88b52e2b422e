"""What can go wrong. Every error is one line saying what, where and what to do."""

from __future__ import annotations


class Error(Exception):
    """The base class of all errors."""


class UsageError(Error, ValueError):
    """The request is wrong: a setting, a shape or a type."""


class ModelError(Error):
    """The checkpoint cannot be used."""


class CorpusError(Error):
    """The text cannot be used."""


class RefusedError(Error):
    """The work was refused before it began: too little memory, or inputs that do not belong together."""


class Interrupted(Error, KeyboardInterrupt):
    """Ctrl-C: everything so far is saved, and the same call resumes."""

    #: The folder of the run that can be resumed, where there is one.
    out: str | None = None


class FileError(Error, OSError):
    """A file cannot be read or written, or is damaged."""


class DefectError(Error, RuntimeError):
    """An internal error of Layerscope; please report it."""
