"""The entry point of ``singleshot COMMAND``.

Exit codes: 0 success, 1 failure, 2 wrong usage or input, 130 interrupted by Ctrl-C, 143 terminated by SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

from tyro.extras import SubcommandApp

from singleshot import __version__
from singleshot.cli.calibrate import calibrate
from singleshot.cli.data import data_app
from singleshot.cli.doctor import doctor
from singleshot.cli.evaluate import evaluate
from singleshot.cli.export import export
from singleshot.cli.predict import predict
from singleshot.cli.quickstart import quickstart
from singleshot.cli.report import report
from singleshot.cli.reproduce import reproduce
from singleshot.cli.train import train_command
from singleshot.common.errors import StoppedError
from singleshot.common.text import print_status, unknown_name

MAX_MESSAGE = 2000  # characters
RESUMABLE = ("quickstart", "train", "reproduce", "data fetch")
"""Commands that keep finished work and resume when they are repeated."""
FIRST_STEPS = """\
singleshot: how far can a classifier's confidence be trusted?

  singleshot quickstart                 compare six ways to train a small network (a minute)
  singleshot evaluate predictions.csv   measure the calibration of your own predictions
  singleshot train --dataset digits     train a network with VWCI
  singleshot --help                     list all commands"""


def commands(args: Sequence[str]) -> SubcommandApp:
    """Return all commands; the help and the defaults of ``train`` depend on the arguments."""
    app = SubcommandApp()
    training = train_command(args[1:] if args[:1] == ["train"] else [])
    functions = (quickstart, training, evaluate, calibrate, predict, export, reproduce, report, doctor)
    names = [*(command.__name__ for command in functions), "data"]
    if args and not args[0].startswith("-") and args[0] not in names:
        raise unknown_name("command", args[0], names)
    for command in functions:
        # The help of a command shows its docstring; the list of commands shows the first line of it.
        is_selected = args[:1] == [command.__name__]
        summary = None if is_selected else (command.__doc__ or "").partition("\n")[0]
        app.command(help=summary)(command)
    app.command(data_app, name="data", help="List, verify and download data sets.")
    return app


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake gives one message on standard error, never a traceback."""
    args = sys.argv[1:] if args is None else list(args)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # print "?" on a terminal without "±" instead of failing
    if args == ["--version"]:
        print(f"singleshot {__version__}")
        return
    if not args:
        print_status(FIRST_STEPS)
        sys.exit(2)
    is_resumable = " ".join(args).startswith(RESUMABLE)
    try:
        with warnings.catch_warnings(), _termination_raised():
            warnings.showwarning = lambda message, *_, **__: print_status(f"singleshot: {message}")
            commands(args).cli(
                prog="singleshot",
                description="Calibrated confidence from one forward pass. Start with: singleshot quickstart\n\n"
                "Use singleshot COMMAND --help for the help of a command, and singleshot --version for the version.",
                args=args,
            )
    except (ValueError, TypeError) as error:
        _exit(2, str(error))
    except (AssertionError, ImportError) as error:
        if "completion" not in args[0]:
            raise
        _exit(2, str(error))  # tyro's check of the shell, and of the package that it needs for tcsh
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stdout = None
        sys.exit(1)
    except OSError as error:
        _exit(1, f"{error}; finished work is kept" if is_resumable else str(error))
    except StoppedError as error:
        _exit(error.exit_code, str(error))
    except (KeyboardInterrupt, _Terminated) as error:
        is_signal = isinstance(error, _Terminated)
        again = "resume" if is_resumable else "start from scratch"
        how = "terminated by SIGTERM" if is_signal else "interrupted"
        _exit(143 if is_signal else 130, f"{how}; repeat the command to {again}")


class _Terminated(BaseException):
    """SIGTERM was received, and no training was there to save a checkpoint."""


@contextmanager
def _termination_raised() -> Iterator[None]:
    """Raise `_Terminated` on SIGTERM. The training loop has a handler of its own, which saves a checkpoint."""

    def terminate(*_: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():  # other threads cannot set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is terminate:
            signal.signal(signal.SIGTERM, before)


def _exit(code: int, message: str) -> None:
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}… ({len(message):,} characters)"
    print_status(f"singleshot: {message}")
    sys.exit(code)
