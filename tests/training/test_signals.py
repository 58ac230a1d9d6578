"""Signals: the first is noted, the second ends the process, and afterwards all is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from glws.training._signals import StopSignals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted_and_ends_nothing(number: int) -> None:
    before = signal.getsignal(number)
    with StopSignals() as stop:
        assert stop.received is None
        os.kill(os.getpid(), number)
        assert stop.received == number
    assert signal.getsignal(number) is before


def test_handlers_come_back_when_training_fails() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(ValueError, match="failed"), StopSignals():
        raise ValueError("failed")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize(("first", "second"), [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGTERM"), ("SIGTERM", "SIGINT")])
def test_the_second_signal_ends_the_process_with_its_status(first: str, second: str) -> None:
    code = f"""
import os, signal, sys
sys.modules["torch"] = None  # not needed for this
import importlib.util
spec = importlib.util.spec_from_file_location("signals", {StopSignals.__init__.__code__.co_filename!r})
signals = importlib.util.module_from_spec(spec)
spec.loader.exec_module(signals)
with signals.StopSignals() as stop:
    os.kill(os.getpid(), signal.{first})
    print(int(stop.received), flush=True)
    os.kill(os.getpid(), signal.{second})
    print("still here", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{int(signal.Signals[first])}\n", "")
    assert done.returncode == 128 + signal.Signals[second]


def test_outside_the_main_thread_nothing_changes() -> None:
    before, found = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with StopSignals() as stop:
            found.append((stop.received, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(None, before)]
