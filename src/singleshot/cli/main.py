"""The command line: ``singleshot COMMAND``; one file per command, each nothing but parsing, calling and printing.

Exit codes: 0 done, 1 something failed on the way, 2 a mistake in what was asked for, 130 interrupted by Ctrl-C, 143 by
SIGTERM.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from io import TextIOWrapper

from tyro.conf import FlagCreatePairsOff, configure
from tyro.extras import SubcommandApp

from singleshot import __version__
from singleshot.cli.calibrate import calibrate
from singleshot.cli.data import data_app
from singleshot.cli.evaluate import evaluate
from singleshot.cli.export import export
from singleshot.cli.predict import predict
from singleshot.cli.quickstart import quickstart
from singleshot.cli.report import report
from singleshot.cli.reproduce import reproduce
from singleshot.cli.train import train_command
from singleshot.common.errors import StoppedError
from singleshot.common.text import printable_lines

CONTINUING = ("quickstart", "train", "reproduce", "data fetch")
"""Commands that keep what they have done; any other starts anew."""


def commands(args: Sequence[str]) -> SubcommandApp:
    """All commands; the arguments are looked at for what the help should say and for the defaults of ``train``."""
    app = SubcommandApp()
    one_flag = configure(FlagCreatePairsOff)  # --json needs no --no-json beside it
    training = train_command(args[1:] if args[:1] == ["train"] else [])
    listed: list[tuple[str, Callable[..., None]]] = [
        (
            "Compare an overconfident net with calibrated ones, in a minute; nothing is downloaded.",
            one_flag(quickstart),
        ),
        ("Train a network whose softmax score is a confidence; stop and resume at will.", training),
        ("Measure accuracy and calibration of files of predictions, or of trained runs.", one_flag(evaluate)),
        ("Fix the confidence of predictions: learn on one file, apply to another.", one_flag(calibrate)),
        ("Classify images with a trained run, abstaining where it is not sure enough.", one_flag(predict)),
        ("Write the classifier of a trained run as an ONNX or torch.export file.", one_flag(export)),
        ("Measure the paper's tables and figures, here or on many machines.", one_flag(reproduce)),
        ("Write one HTML page: can these scores be trusted, where not, and from which threshold on.", one_flag(report)),
    ]
    for summary, command in listed:
        # In the list of all commands a line for each; a command's own help is its whole docstring.
        is_asked_for = args[:1] == [command.__name__]
        app.command(help=None if is_asked_for else summary)(command)
    app.command(data_app, name="data", help="List, verify and download data sets.")
    return app


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; a user's error is one message on standard error, never a traceback."""
    args = sys.argv[1:] if args is None else list(args)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows a question mark, not an error
    if args == ["--version"]:
        print(f"singleshot {__version__}")
        return
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            commands(args).cli(
                prog="singleshot",
                description="Confidence one can act on, from one forward pass. Start with: singleshot quickstart\n\n"
                "singleshot COMMAND --help explains a command; singleshot --version tells which this is.",
                args=args,
            )
    except ValueError as error:
        _exit(2, str(error))
    except BrokenPipeError:  # whoever read the output has had enough; nothing more can be said to them
        sys.stdout = None
        sys.exit(1)
    except OSError as error:
        _exit(1, f"{error}; what was finished before is kept" if _continues(args) else str(error))
    except BrokenProcessPool:
        _exit(1, f"a worker process died, perhaps for want of memory; {_when_repeated(args)}")
    except StoppedError as error:
        _exit(error.exit_code, str(error))
    except KeyboardInterrupt:
        _exit(130, f"interrupted; {_when_repeated(args)}")


def _continues(args: Sequence[str]) -> bool:
    return any(list(args[: len(words)]) == words for words in map(str.split, CONTINUING))


def _when_repeated(args: Sequence[str]) -> str:
    return f"the same command {'continues where it stopped' if _continues(args) else 'starts anew'}"


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Only what it says; where in the code it comes from says nothing to a user."""
    _say(str(message))


def _exit(code: int, message: str) -> None:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    """On standard error; a message may quote the name of a file, and that may hold anything."""
    print(f"singleshot: {printable_lines(message)}", file=sys.stderr)
