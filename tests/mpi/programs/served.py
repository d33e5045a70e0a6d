"""Windows of mpi4py, which asks the loader whether there are functions with large counts (MPI-4).

Rank 0 prints whether all ranks found what they should.
"""

import array

from mpi4py import MPI


def main():
    rank = MPI.COMM_WORLD.rank
    memory = MPI.memory.allocate(64)
    wrong = use(MPI.Win.Allocate(64, 8, comm=MPI.COMM_WORLD)) + use(MPI.Win.Create(memory, 8, comm=MPI.COMM_WORLD))
    wrong = MPI.COMM_WORLD.allreduce(wrong)
    if rank == 0:
        print("mpi4py:", "wrong" if wrong else "well")


def use(win):
    """How many of the numbers are wrong that come out of a window of eight."""
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    memory = win.tomemory()
    memory[:] = bytes(64)
    win.Fence()
    win.Put([numbers(rank + 1), 1, MPI.INT64_T], (rank + 1) % ranks, [rank, 1, MPI.INT64_T])
    win.Fence()
    got, before = numbers(*[0] * 8), numbers(0)
    win.Get([got, 8, MPI.INT64_T], (rank + 1) % ranks)
    win.Fence(MPI.MODE_NOSUCCEED)
    win.Lock_all()
    win.Fetch_and_op([numbers(1), MPI.INT64_T], [before, MPI.INT64_T], 0, 7)
    win.Accumulate([numbers(rank), 1, MPI.INT64_T], 0, [6, 1, MPI.INT64_T])
    win.Unlock_all()
    MPI.COMM_WORLD.Barrier()
    sums = numbers(*[0] * 2)
    win.Lock(0, MPI.LOCK_SHARED)
    win.Get([sums, 2, MPI.INT64_T], 0, 6)
    win.Unlock(0)
    win.Free()
    return (got[rank] != rank + 1) + (list(sums) != [ranks * (ranks - 1) // 2, ranks]) + (before[0] >= ranks)


def numbers(*values):
    return array.array("q", values)


main()
