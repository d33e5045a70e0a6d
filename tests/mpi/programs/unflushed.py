"""Shows why mpi4py's mutexes can wait for ever over MPICH: unflushed.py [flush], with 3 ranks.

Rank 1 empties a place in its own window, puts its number into rank 0's, and is away for a moment. Rank 2 finds the number there, and so writes its own into the place. Without a
flush between the first two steps it may be lost. Prints how often it was.
"""

import sys
import time
from array import array

from mpi4py import MPI

TURNS = 50
NOBODY = -1


def turn(window, memory, flushes):
    """Returns whether rank 2 was to write, and then whether its number is missing."""
    rank, told = MPI.COMM_WORLD.rank, False
    found, number = array("i", [NOBODY]), array("i", [rank])
    memory[0] = NOBODY
    MPI.COMM_WORLD.Barrier()
    window.Lock_all()
    MPI.COMM_WORLD.Barrier()
    if rank == 1:
        window.Accumulate(array("i", [NOBODY]), 1, 1, MPI.REPLACE)
        if flushes:
            window.Flush(1)
        window.Fetch_and_op(number, found, 0, 0, MPI.REPLACE)
        time.sleep(0.02)
        window.Flush(0)
    elif rank == 2:
        time.sleep(0.005)
        window.Fetch_and_op(number, found, 0, 0, MPI.REPLACE)
        window.Flush(0)
        told = found[0] == 1
        if told:
            window.Accumulate(number, 1, 1, MPI.REPLACE)
    window.Unlock_all()
    told = MPI.COMM_WORLD.bcast(told, 2)
    return told, told and memory[1] != 2


def main():
    if MPI.COMM_WORLD.size != 3:
        sys.exit(f"unflushed.py is for 3 ranks, and there are {MPI.COMM_WORLD.size}")
    window = MPI.Win.Allocate(8, 4, MPI.INFO_NULL, MPI.COMM_WORLD)
    memory = memoryview(window).cast("i")
    turns = [turn(window, memory, "flush" in sys.argv) for _ in range(TURNS)]
    if MPI.COMM_WORLD.rank == 1:
        told, lost = map(sum, zip(*turns))
        print(f"{lost} of {told} numbers lost", flush=True)
    memory.release()
    window.Free()


main()
