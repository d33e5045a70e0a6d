"""A rank dies while the others talk to it. Arguments: what the others do about it.

launcher: they go on, and the launcher ends the job.
survivors: the launcher does not see it, and they must learn of it: an operation with the dead rank ends with an error.
"""

import os
import signal
import sys
import time

ROUNDS = 20
SIZE = 300_000
PATIENCE_S = 40


def main():
    if sys.argv[1] == "survivors" and (child := os.fork()) != 0:
        # The launcher knows this process, whose end it would punish.
        os.waitpid(child, 0)
        if os.environ["PMI_RANK"] == "0":
            note("done")
        else:
            await_note("done")
        os._exit(3)
    play()


def play():
    from mpi4py import MPI  # initialises
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    memory = bytearray(SIZE)
    for number in range(ROUNDS):
        comm.Sendrecv([bytes(SIZE), MPI.BYTE], (comm.rank + 1) % comm.size, 0, [memory, MPI.BYTE], (comm.rank - 1) % comm.size, 0)
    comm.Barrier()
    note(f"alive{comm.rank}")
    # So that nobody is in a barrier any more when it dies.
    comm.Barrier()
    if comm.rank != 1:
        comm.Ssend(b"out", 1)
    if comm.rank == 1:
        for rank in (0, 2):
            comm.Recv(bytearray(3), rank)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "launcher":
        comm.Recv([memory, MPI.BYTE], 1, 1)
    elif comm.rank == 0:
        talk_to_the_dead(MPI, comm)
    os._exit(3)


def talk_to_the_dead(MPI, comm):
    """MPICH may end the process itself, with the error on its lips."""
    with open(path("stderr"), "x", encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)
    try:
        while True:
            comm.Send([bytes(SIZE), MPI.BYTE], 1, 1)
    except MPI.Exception as error:
        print(error.Get_error_string(), file=sys.stderr, flush=True)


def note(name):
    with open(path(name), "x", encoding="ascii"):
        pass


def await_note(name):
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(path(name)) and time.monotonic() < deadline:
        time.sleep(0.05)


def path(name):
    return os.path.join(os.environ["SUITE_SCRATCH"], name)


main()
