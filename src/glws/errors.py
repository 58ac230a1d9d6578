"""Everything glws raises on purpose: one base class, few children."""

from __future__ import annotations


class GlwsError(Exception):
    """Base of all errors of this package; its text is meant for the person who reads it."""


class AutomatonError(GlwsError, ValueError):
    """An automaton that cannot be: a missing state, a broken arc, an operation its weights do not allow."""


class StateBudgetError(AutomatonError):
    """A construction grew past the number of states it was allowed."""


class ConstraintError(GlwsError, ValueError):
    """A constraint text that cannot be read; the message points at the place with a caret."""


class DataError(GlwsError, ValueError):
    """Inputs that do not fit together: shapes, lengths, NaN in a real instance, a group nothing can satisfy."""


class ConfigError(GlwsError, ValueError):
    """A configuration that cannot be: an unknown key, a value of the wrong type or out of range."""


class FileError(GlwsError):
    """A file or folder that cannot be read or written, is in use by another process, or is damaged."""


class CheckpointError(FileError):
    """A checkpoint that is damaged, is none, or cannot be saved."""


class RunError(GlwsError):
    """A run folder that cannot be used as asked: it holds a run already, holds none, or is only being read."""
