"""Errors. The message of each is one line: what is wrong, where, and what to do."""

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
    """The work was refused before it began: not enough memory, or inputs that do not belong together."""


class Interrupted(Error, KeyboardInterrupt):
    """Ctrl-C interrupted the work. What is done so far is saved; repeat the call to resume."""

    #: The folder of the run to resume, if there is one.
    out: str | None = None


class FileError(Error, OSError):
    """A file cannot be read or written, or is damaged."""


class DefectError(Error, RuntimeError):
    """An internal error in Layerscope. Please report it."""
