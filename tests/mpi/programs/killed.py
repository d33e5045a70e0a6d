"""A rank dies while the others talk to it. Arguments: what the others do about it.

launcher: they go on, and the launcher ends the job.
survivors: the launcher lets them live, and they must learn of it: an operation with the dead rank ends with an error.
"""

import os
import signal
import sys

from mpi4py import MPI

ROUNDS = 20
SIZE = 300_000


def main():
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    memory = bytearray(SIZE)
    for number in range(ROUNDS):
        comm.Sendrecv([bytes(SIZE), MPI.BYTE], (comm.rank + 1) % comm.size, 0, [memory, MPI.BYTE], (comm.rank - 1) % comm.size, 0)
    comm.Barrier()
    open(f"{os.environ['SUITE_SCRATCH']}/alive{comm.rank}", "x").close()
    comm.Barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "launcher":
        comm.Recv([memory, MPI.BYTE], 1, 1)
    elif comm.rank == 0:
        talk_to_the_dead(comm)
    os._exit(3)


def talk_to_the_dead(comm):
    try:
        while True:
            comm.Send([bytes(SIZE), MPI.BYTE], 1, 1)
    except MPI.Exception as error:
        tell(f"error {error.Get_error_string()}".replace("\n", "; "))


def tell(text):
    os.write(1, f"@{text}\n".encode())


main()
