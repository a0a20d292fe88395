"""Errors that end a command in a way of their own. Light, so that the command line can know them without torch."""

from __future__ import annotations


class StoppedError(Exception):
    """Work that ended before its end; the message says what was kept and how to go on."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
