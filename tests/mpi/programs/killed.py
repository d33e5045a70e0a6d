"""A rank dies while the others talk to it. Arguments: what the others do about it.

launcher: they go on, and the launcher ends the job.
survivors: the launcher lets them live, and they must learn of it: an operation with the dead rank ends with an error.
"""

import os
import signal
import sys
import time

from mpi4py import MPI

ROUNDS = 20
SIZE = 300_000
PATIENCE_S = 40


def main():
    # By which Hydra tells the living of the dead.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    memory = bytearray(SIZE)
    for number in range(ROUNDS):
        comm.Sendrecv([bytes(SIZE), MPI.BYTE], (comm.rank + 1) % comm.size, 0, [memory, MPI.BYTE], (comm.rank - 1) % comm.size, 0)
    comm.Barrier()
    note(f"alive{comm.rank}")
    comm.Barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "launcher":
        comm.Recv([memory, MPI.BYTE], 1, 1)
    elif comm.rank == 0:
        talk_to_the_dead(comm)
    else:
        await_note("told")
    os._exit(3)


def talk_to_the_dead(comm):
    """MPICH may end the process itself, with the error on its lips."""
    with open(path("error"), "x", encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)
    try:
        while True:
            comm.Send([bytes(SIZE), MPI.BYTE], 1, 1)
    except MPI.Exception as error:
        print(error.Get_error_string(), file=sys.stderr, flush=True)
    note("told")


def note(name):
    with open(path(name), "x", encoding="ascii"):
        pass


def await_note(name):
    """Whoever ends first may have the launcher end the others."""
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(path(name)) and time.monotonic() < deadline:
        time.sleep(0.05)


def path(name):
    return os.path.join(os.environ["SUITE_SCRATCH"], name)


main()
