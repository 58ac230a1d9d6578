"""How a command ends when it cannot go on: one line on stderr, and a status that says whose mistake it was."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import traceback

import typer

from glws.errors import ConstraintError, GlwsError

USER_MISTAKE = 2
OUR_MISTAKE = 70  # EX_SOFTWARE
INTERRUPTED = 130
PIPE_CLOSED = 141
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # typer carries its own copy of click, or uses click


class UsageError(GlwsError):
    """Options that are wrong, or wrong together; the message is what the user reads."""


def report_failure(error: BaseException) -> int:
    """Says in one line what went wrong and returns the exit status."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else OUR_MISTAKE
    if isinstance(error, ConstraintError):
        return _say("error: " + str(error), USER_MISTAKE)  # its second and third line point at the place
    if isinstance(error, GlwsError):
        return _say("error: " + _one_line(str(error)), USER_MISTAKE)
    if isinstance(error, USAGE_ERROR):
        return _say("error: " + _usage_text(error), USER_MISTAKE)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return _say("interrupted", INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: no second complaint at exit
        return PIPE_CLOSED
    if _is_out_of_memory(error):
        return _say("error: " + _out_of_memory(str(error)), USER_MISTAKE)
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return _say(f"error: cannot write: {error.strerror}", USER_MISTAKE)
    what = _one_line(f"{type(error).__name__}: {error}")[:200]
    return _say(f"internal error: {what}; please report it with {_saved_traceback(error)}", OUR_MISTAKE)


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, numpy, Arrow or torch was refused memory; on the CPU torch says so by a plain RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


REFUSED = re.compile(r"allocate ([\d.]+) ?(bytes|[KMGTP]iB)|of size ([\d.]+) failed")
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def _out_of_memory(message: str) -> str:
    """How much was asked for, in any library's words, and what to do."""
    found = REFUSED.search(message)
    size = 0.0 if found is None else float(found[1] or found[3]) * UNITS[found[2] or "bytes"]
    asked = f" (a block of {size / 2**30:,.2f} GiB was refused)" if size else ""
    return f"out of memory{asked}; use smaller groups or fewer of them at a time (training.batch_size)"


def _say(message: str, status: int) -> int:
    print(f"glws: {message}", file=sys.stderr)
    return status


def _usage_text(error: Exception) -> str:
    """What typer says, in our words where it knows the option that was meant."""
    option, meant = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if option and meant:
        return f"no such option {option}; did you mean {' or '.join(sorted(meant)[:3])}?"
    if option and _is_setting(error, option):
        return f"no such option {option}; settings of training are written training.{_key(option)}=..., without dashes"
    message = _one_line(error.format_message() if hasattr(error, "format_message") else str(error))
    return message[:1].lower() + message[1:].rstrip(".")


def _is_setting(error: Exception, option: str) -> bool:
    """Whether somebody wrote --epochs for training.epochs."""
    from dataclasses import fields

    from glws.training import TrainingConfig

    command = getattr(getattr(error, "ctx", None), "info_name", None)
    return command == "train" and _key(option) in [item.name for item in fields(TrainingConfig)]


def _key(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _saved_traceback(error: BaseException) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="glws-traceback-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write("".join(traceback.format_exception(error)))
    return file.name
