"""Collective operations."""

from array import array

from mpi4py import MPI

from frame import case, expect, expect_equal, payload

COUNTS = (1, 1000, 30_000)


def numbers(count, *seed):
    """Doubles without fractions, so that sums are exact in any order."""
    return array("d", (sum(hash(part) % 97 for part in seed) + i % 1009 for i in range(count)))


def total(count, ranks, *seed):
    return array("d", map(sum, zip(*(numbers(count, rank, *seed) for rank in ranks))))


@case
def barrier(t):
    """200 barriers; nobody passes one before all have come."""
    for number in range(200):
        t.comm.Barrier()
    token = bytearray(1)
    if t.rank == 0:
        request = t.comm.Ibarrier()
        for _ in range(100):
            expect(not request.Test(), "a barrier ended before all had come")
        for peer in t.others:
            t.comm.Send(b"g", peer)
        request.Wait()
    else:
        t.comm.Recv(token, 0)
        t.comm.Barrier() if t.size < 2 else t.comm.Ibarrier().Wait()


@case
def bcast(t):
    """Broadcasts from each root."""
    for size in (0, 1, 5000, 70_000, 3_000_000):
        for root in range(t.size):
            memory = bytearray(payload(size, root, size)) if t.rank == root else bytearray(size)
            t.comm.Bcast([memory, MPI.BYTE], root)
            expect(memory == payload(size, root, size), f"{size} bytes from {root} are wrong")
            (t.sent if t.rank == root else t.received)(size)


@case
def reduce(t):
    """Reductions to each root, and to all; sum, max, min, product."""
    for count in COUNTS:
        wanted = total(count, range(t.size))
        for root in range(t.size):
            result = array("d", bytes(8 * count))
            t.comm.Reduce(numbers(count, t.rank), result, MPI.SUM, root)
            expect(t.rank != root or result == wanted, f"the sum of {count} at {root} is wrong")
            (t.received if t.rank == root else t.sent)(8 * count)
        result = array("d", bytes(8 * count))
        t.comm.Allreduce(numbers(count, t.rank), result, MPI.SUM)
        expect(result == wanted, f"the sum of {count} for all is wrong")
        t.moved(8 * count)
    for operation, wanted in ((MPI.MAX, t.size), (MPI.MIN, 1), (MPI.PROD, product(t.size))):
        result = array("q", [0])
        t.comm.Allreduce(array("q", [t.rank + 1]), result, operation)
        expect_equal("the result", result[0], wanted)


def product(last):
    return 1 if last == 0 else last * product(last - 1)


@case
def gather(t):
    """Gather, scatter and all-gather, equal parts and unequal ones."""
    for size in (1, 3000, 200_000):
        parts = [payload(size, rank) for rank in range(t.size)]
        for root in (0, t.size - 1):
            memory = bytearray(size * t.size)
            t.comm.Gather([parts[t.rank], MPI.BYTE], [memory, MPI.BYTE] if t.rank == root else None, root)
            expect(t.rank != root or memory == b"".join(parts), f"gathering {size} at {root} is wrong")
            part = bytearray(size)
            t.comm.Scatter([b"".join(parts), MPI.BYTE] if t.rank == root else None, [part, MPI.BYTE], root)
            expect(part == parts[t.rank], f"scattering {size} from {root} is wrong")
            t.moved(size * (t.size - 1) if t.rank == root else size)
        memory = bytearray(size * t.size)
        t.comm.Allgather([parts[t.rank], MPI.BYTE], [memory, MPI.BYTE])
        expect(memory == b"".join(parts), f"all-gathering {size} is wrong")
        t.sent(size)
        t.received(size * (t.size - 1))
    counts = [1000 * rank for rank in range(t.size)]
    parts = [payload(count, count) for count in counts]
    memory = bytearray(sum(counts))
    t.comm.Allgatherv([parts[t.rank], MPI.BYTE], [memory, counts, None, MPI.BYTE])
    expect(memory == b"".join(parts), "gathering unequal parts is wrong")
    memory = bytearray(sum(counts))
    t.comm.Gatherv([parts[t.rank], MPI.BYTE], [memory, counts, None, MPI.BYTE] if t.rank == 0 else None, 0)
    expect(t.rank != 0 or memory == b"".join(parts), "gathering unequal parts at 0 is wrong")
    part = bytearray(counts[t.rank])
    t.comm.Scatterv([memory, counts, None, MPI.BYTE] if t.rank == 0 else None, [part, MPI.BYTE], 0)
    expect(part == parts[t.rank], "scattering unequal parts is wrong")


@case
def alltoall(t):
    """Everybody to everybody, equal parts and unequal ones."""
    for size in (1, 700, 20_000, 200_000):
        memory = bytearray(size * t.size)
        t.comm.Alltoall([b"".join(payload(size, t.rank, peer) for peer in range(t.size)), MPI.BYTE], [memory, MPI.BYTE])
        expect(memory == b"".join(payload(size, peer, t.rank) for peer in range(t.size)), f"parts of {size} are wrong")
        t.moved(size * (t.size - 1))

    def length(source, target):
        return 3000 * source + 100 * target

    out, into = [length(t.rank, peer) for peer in range(t.size)], [length(peer, t.rank) for peer in range(t.size)]
    memory = bytearray(sum(into))
    t.comm.Alltoallv([b"".join(payload(n, t.rank, peer) for peer, n in enumerate(out)), out, None, MPI.BYTE], [memory, into, None, MPI.BYTE])
    expect(memory == b"".join(payload(n, peer, t.rank) for peer, n in enumerate(into)), "unequal parts are wrong")


@case
def scan(t):
    """Prefix sums, and sums whose parts stay with their ranks."""
    for count in COUNTS:
        result = array("d", bytes(8 * count))
        t.comm.Scan(numbers(count, t.rank), result)
        expect(result == total(count, range(t.rank + 1)), f"the prefix sum of {count} is wrong")
        t.comm.Exscan(numbers(count, t.rank), result)
        expect(t.rank == 0 or result == total(count, range(t.rank)), f"the exclusive prefix sum of {count} is wrong")
        part = array("d", bytes(8 * count))
        t.comm.Reduce_scatter_block(numbers(count * t.size, t.rank), part)
        expect(part == total(count * t.size, range(t.size))[count * t.rank:count * (t.rank + 1)], f"the part of {count} is wrong")
        t.moved(8 * count if 0 < t.rank < t.size - 1 else 0)


@case
def nonblocking(t):
    """Many collective operations under way at once."""
    count, size = 5000, 40_000
    comms = [t.comm.Dup() for _ in range(4)]
    requests, checks = [], []
    for number, comm in enumerate(comms):
        result, memory = array("d", bytes(8 * count)), bytearray(size * t.size)
        spread = bytearray(payload(size, number)) if t.rank == number % t.size else bytearray(size)
        requests += [
            comm.Iallreduce(t.keep(numbers(count, t.rank, number)), result),
            comm.Ialltoall([b"".join(payload(size, t.rank, peer, number) for peer in range(t.size)), MPI.BYTE], [memory, MPI.BYTE]),
            comm.Ibcast([spread, MPI.BYTE], number % t.size),
            comm.Ibarrier(),
        ]
        checks.append((number, result, memory, spread))
        t.moved(size * (t.size - 1))
    MPI.Request.Waitall(requests)
    for number, result, memory, spread in checks:
        expect(result == total(count, range(t.size), number), f"sum {number} is wrong")
        expect(memory == b"".join(payload(size, peer, t.rank, number) for peer in range(t.size)), f"exchange {number} is wrong")
        expect(spread == payload(size, number), f"broadcast {number} is wrong")
    for comm in comms:
        comm.Free()


@case
def objects(t):
    """Python's objects, as mpi4py's users send them."""
    everything = t.comm.allgather({"rank": t.rank, "text": "x" * 10_000 * t.rank})
    expect_equal("the ranks", [thing["rank"] for thing in everything], list(range(t.size)))
    expect_equal("the sum", t.comm.allreduce(t.rank), sum(range(t.size)))
    expect_equal("the exchange", t.comm.alltoall([(t.rank, peer) for peer in range(t.size)]), [(peer, t.rank) for peer in range(t.size)])
