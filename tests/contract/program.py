"""A program like those of the experiments; its first argument selects what it does."""

from __future__ import annotations

import os
import signal
import sys


def main(argv: list[str]) -> int:
    what, *words = argv
    if what == "print":
        print(ascii(words))
        print("on stderr", file=sys.stderr)
    elif what == "exit":
        return int(words[0])
    elif what == "sys.exit":
        sys.exit(int(words[0]))
    elif what == "raise":
        raise ValueError(*words)
    elif what == "kill":
        os.kill(os.getpid(), int(words[0]))
    elif what == "count":
        return count()
    return 0


def count() -> int:
    """Print the number of SIGUSR1 received, until SIGTERM."""
    wanted = (signal.SIGUSR1, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    print("ready", flush=True)
    seen = 0
    while signal.sigwait(wanted) == signal.SIGUSR1:
        seen += 1
        print(seen, flush=True)
    return 3


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
