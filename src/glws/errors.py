"""The errors that glws raises: one base class and its subclasses."""

from __future__ import annotations


class GlwsError(Exception):
    """Base class of all errors of this package; messages are written for users."""


class AutomatonError(GlwsError, ValueError):
    """An invalid automaton: a missing state, a broken arc, an operation its weights do not allow."""


class StateBudgetError(AutomatonError):
    """A construction exceeded its budget of states."""


class ConstraintError(GlwsError, ValueError):
    """An invalid constraint text; the message has a caret under the place."""


class DataError(GlwsError, ValueError):
    """Inputs that do not fit together: shapes, lengths, NaN outside padding, an infeasible group."""


class ConfigError(GlwsError, ValueError):
    """An invalid configuration: an unknown key, a value of the wrong type or out of range."""


class FileError(GlwsError):
    """A file or folder that is unreadable, not writable, in use, or damaged."""


class CheckpointError(FileError):
    """A checkpoint that is damaged, has another format, or cannot be saved."""


class RunError(GlwsError):
    """A run folder in the wrong state: it holds a run, none, or is read-only."""
