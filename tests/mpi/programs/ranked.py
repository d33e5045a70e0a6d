"""Runs a Python script with the output of each rank in a file of its own: ranked.py DIRECTORY SCRIPT ARGUMENT..."""

import faulthandler
import os
import runpy
import signal
import sys

directory, sys.argv = sys.argv[1], sys.argv[2:]
with open(os.path.join(directory, f"rank{os.environ['PMI_RANK']}"), "ab", buffering=0) as output:
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
faulthandler.register(signal.SIGUSR1, all_threads=True)
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
