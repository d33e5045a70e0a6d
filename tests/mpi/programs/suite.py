"""Runs the cases that its arguments name, in this order; lines that begin with `@` tell the harness what happens."""

import sys

import frame
import messages  # noqa: F401  (declares its cases)
import collectives  # noqa: F401
import windows  # noqa: F401
import many  # noqa: F401
import threads  # noqa: F401

if __name__ == "__main__":
    frame.run(sys.argv[1:] or list(frame.CASES))
