"""Runs a Python script with mpi4py's mutexes mended: mended.py SCRIPT ARGUMENT...

`mpi4py.util.sync.Mutex` (4.1.2) empties a place of its own rank's window with an accumulate, and does not flush it before others may write there. MPI promises no order then, and
MPICH keeps none: what it sends to itself it takes after what has come from the network. The successor's number is lost, and two ranks wait for each other for ever.
`unflushed.py` shows it over any transport.
"""

import os
import runpy
import sys

from mpi4py import MPI
from mpi4py.util import sync


class FlushedWin(MPI.Win):
    """A window whose accumulates to the own rank are over when they return."""

    def Accumulate(self, origin, target_rank, *arguments, **named):  # noqa: N802
        super().Accumulate(origin, target_rank, *arguments, **named)
        if target_rank == self.group_rank:
            self.Flush(target_rank)


def mend(begin):
    def begin_mended(self, **named):
        begin(self, **named)
        self._window = FlushedWin(self._window)

    return begin_mended


sync.Mutex.__init__ = mend(sync.Mutex.__init__)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
