"""The command line: ``singleshot COMMAND``; one file per command, each nothing but parsing, calling and printing.

Exit codes: 0 done, 1 something failed on the way, 2 a mistake in what was asked for, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from io import TextIOWrapper

from tyro.conf import FlagCreatePairsOff
from tyro.extras import SubcommandApp

from singleshot import __version__
from singleshot.cli.quickstart import quickstart

app = SubcommandApp()
app.command(help="Compare an overconfident net with calibrated ones, in a minute; nothing is downloaded.")(quickstart)


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
        app.cli(
            prog="singleshot",
            description="Confidence one can act on, from one forward pass. Start with: singleshot quickstart\n\n"
            "singleshot COMMAND --help explains a command; singleshot --version tells which this is.",
            args=args,
            config=(FlagCreatePairsOff,),
        )
    except ValueError as error:
        _exit(2, str(error))
    except BrokenPipeError:  # whoever read the output has had enough; nothing more can be said to them
        sys.stdout = None
        sys.exit(1)
    except OSError as error:
        _exit(1, f"{error}; what was finished before is kept")
    except BrokenProcessPool:
        _exit(1, "a worker process died, perhaps for want of memory; the same command continues where it stopped")
    except KeyboardInterrupt:
        _exit(130, "interrupted; the same command continues where it stopped")


def _exit(code: int, message: str) -> None:
    print(f"singleshot: {message}", file=sys.stderr)
    sys.exit(code)
