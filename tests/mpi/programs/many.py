"""Many ranks."""

from array import array

from mpi4py import MPI

from frame import Buffer, case, expect, expect_equal, payload


@case
def all_pairs(t):
    """Everybody sends to everybody at once, short and long."""
    for size in (8, 30_000):
        buffers = [(peer, Buffer(size)) for peer in t.others]
        receives = [t.comm.Irecv(buffer.view, peer, size % 1000) for peer, buffer in buffers]
        sends = [t.comm.Isend([payload(size, t.rank, peer), MPI.BYTE], peer, size % 1000) for peer in t.others]
        MPI.Request.Waitall(receives + sends)
        for peer, buffer in buffers:
            buffer.check(f"{size} bytes from {peer}", payload(size, peer, t.rank))
        t.moved(size * len(t.others))


@case
def alltoall(t):
    """All-to-all, then a sum of all."""
    size = 500
    memory = bytearray(size * t.size)
    t.comm.Alltoall([b"".join(payload(size, t.rank, peer) for peer in range(t.size)), MPI.BYTE], [memory, MPI.BYTE])
    expect(memory == b"".join(payload(size, peer, t.rank) for peer in range(t.size)), "the parts are wrong")
    result = array("q", [0])
    t.comm.Allreduce(array("q", [t.rank]), result)
    expect_equal("the sum", result[0], sum(range(t.size)))
    t.moved(size * (t.size - 1))


@case
def to_one(t):
    """All send to rank 0, which takes them from any source; then rank 0 answers all."""
    number, size = 100, 200
    if t.rank == 0:
        seen = [0] * t.size
        for _ in range(number * len(t.others)):
            buffer, status = Buffer(size), MPI.Status()
            t.comm.Recv(buffer.view, MPI.ANY_SOURCE, 1, status)
            source = status.Get_source()
            buffer.check(f"from {source}", payload(size, source, seen[source]))
            seen[source] += 1
        for peer in t.others:
            t.comm.Send([payload(size, peer), MPI.BYTE], peer, 2)
        t.received(number * size * len(t.others))
    else:
        for index in range(number):
            t.comm.Send([payload(size, t.rank, index), MPI.BYTE], 0, 1)
        answer = Buffer(size)
        t.comm.Recv(answer.view, 0, 2)
        answer.check("the answer", payload(size, t.rank))
        t.sent(number * size)


@case
def window(t):
    """Everybody puts to everybody, counts at rank 0, between fences."""
    win = MPI.Win.Allocate(8 * t.size, 8, comm=t.comm)
    memory = memoryview(win.tomemory()).cast("B").cast("q")
    memory[:] = array("q", [0] * t.size)
    win.Fence()
    for peer in t.others:
        win.Put([t.keep(array("q", [t.rank * 1000 + peer])), MPI.INT64_T], peer, t.rank)
    win.Accumulate([t.keep(array("q", [1])), MPI.INT64_T], 0, 0, op=MPI.SUM)
    win.Fence()
    for peer in t.others:
        if peer != 0:
            expect_equal(f"what {peer} has put", memory[peer], peer * 1000 + t.rank)
    memory.release()
    win.Free()
    t.moved(8 * (t.size - 1))
