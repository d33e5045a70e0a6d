"""MPI_THREAD_MULTIPLE: several threads of each rank call at once."""

import threading
import traceback
from array import array

from mpi4py import MPI

from frame import Buffer, case, expect, expect_equal, payload

THREADS = 4
ROUNDS = 40


def together(work):
    """Runs `work(thread)` in threads; the first failure of them is the caller's."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            traceback.print_exc()
            failures.append(error)
            MPI.COMM_WORLD.Abort(1)

    threads = [threading.Thread(target=guarded, args=[number]) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def need_threads():
    expect_equal("what the library allows", MPI.Query_thread(), MPI.THREAD_MULTIPLE)


@case
def ping_pong(t):
    """Each thread plays with its namesake on the next rank, on one communicator, by tag; short and long."""
    need_threads()
    peer = t.rank ^ 1

    def work(thread):
        for number in range(ROUNDS):
            size = (8, 1000, 30_000, 100_000)[number % 4]
            data, buffer = payload(size, t.rank, thread, number), Buffer(size)
            if t.rank % 2 == 0:
                t.comm.Send([data, MPI.BYTE], peer, thread)
                t.comm.Recv(buffer.view, peer, thread)
            else:
                t.comm.Recv(buffer.view, peer, thread)
                t.comm.Send([data, MPI.BYTE], peer, thread)
            buffer.check(f"thread {thread}, round {number}", payload(size, peer, thread, number))

    if peer < t.size:
        together(work)
        t.moved(THREADS * ROUNDS // 4 * 131_008)


@case
def wildcards(t):
    """All threads receive from any source with any tag: each message reaches one of them."""
    need_threads()
    seen, senders = [], list(range(1, t.size))

    def receive(thread):
        for _ in range(ROUNDS):
            buffer, status = Buffer(2000), MPI.Status()
            t.comm.Recv(buffer.view, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            source, tag, size = status.Get_source(), status.Get_tag(), status.Get_count(MPI.BYTE)
            buffer.check(f"message {tag} of {source}", payload(size, source, tag))
            seen.append((source, tag))

    def send(thread):
        share = ROUNDS // len(senders)
        for number in range(share):
            tag = thread * share + number
            t.comm.Send([payload(tag % 2000, t.rank, tag), MPI.BYTE], 0, tag)

    expect_equal("the messages without a sender", ROUNDS % len(senders), 0)
    together(receive if t.rank == 0 else send)
    if t.rank == 0:
        each = THREADS * ROUNDS // len(senders)
        expect(sorted(seen) == [(source, tag) for source in senders for tag in range(each)], "some messages came twice or never")
    t.comm.Barrier()


@case
def communicators(t):
    """Collective operations at once, each thread on a communicator of its own."""
    need_threads()
    comms = [t.comm.Dup() for _ in range(THREADS)]

    def work(thread):
        comm = comms[thread]
        for number in range(ROUNDS // 2):
            memory = bytearray(payload(5000, thread, number)) if t.rank == number % t.size else bytearray(5000)
            comm.Bcast([memory, MPI.BYTE], number % t.size)
            expect(memory == payload(5000, thread, number), f"thread {thread}, round {number} is wrong")
            result = array("q", [0])
            comm.Allreduce(array("q", [thread + t.rank]), result)
            expect_equal("the sum", result[0], sum(range(t.size)) + thread * t.size)

    together(work)
    for comm in comms:
        comm.Free()


@case
def mixed(t):
    """Some threads send to other threads' waiting receives, while the others probe."""
    need_threads()

    def work(thread):
        for number in range(ROUNDS):
            size = 10 + number * 50
            request = t.comm.Isend([payload(size, t.rank, thread, number), MPI.BYTE], t.right, thread)
            if thread % 2:
                message = t.comm.Mprobe(t.left, thread)
                buffer = Buffer(size)
                message.Recv(buffer.view)
            else:
                buffer = Buffer(size)
                t.comm.Recv(buffer.view, t.left, thread)
            buffer.check(f"thread {thread}, round {number}", payload(size, t.left, thread, number))
            request.Wait()

    together(work)
    t.moved(THREADS * sum(10 + number * 50 for number in range(ROUNDS)))
