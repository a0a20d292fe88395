"""Errors that end a command with their own exit code. Imports no torch, for the command line."""

from __future__ import annotations


class StoppedError(Exception):
    """Work that stopped early; the message states what was kept and how to resume."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
