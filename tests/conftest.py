"""What every test can rely on."""

from __future__ import annotations

import signal

# A shell without job control starts background processes with interrupts ignored, and their children inherit that: the
# tests that interrupt a command would wait for it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
