"""Point to point."""

import random
import time

from mpi4py import MPI

from frame import Buffer, SIZES, case, expect, expect_equal, payload

# So long a receiver stays away.
FLOOD_S = 1
MIXED = (0, 8, 300, 5000, 20_000, 70_000, 200_000)


@case
def blocking(t):
    """Send and receive around the ring, each size, contents checked."""
    for size in SIZES:
        data, buffer = payload(size, t.rank, size), Buffer(size)
        if t.rank % 2 == 0:
            t.comm.Send([data, MPI.BYTE], t.right, size % 1000)
            t.comm.Recv(buffer.view, t.left, size % 1000)
        else:
            t.comm.Recv(buffer.view, t.left, size % 1000)
            t.comm.Send([data, MPI.BYTE], t.right, size % 1000)
        buffer.check(f"{size} bytes from {t.left}", payload(size, t.left, size))
        t.moved(size)


@case
def nonblocking(t):
    """All sizes between all pairs at once, waited for together."""
    requests, receives = [], []
    for peer in t.others:
        for tag, size in enumerate(SIZES):
            buffer = Buffer(size)
            receives.append((peer, size, buffer))
            requests.append(t.comm.Irecv(buffer.view, peer, tag))
    for peer in t.others:
        for tag, size in enumerate(SIZES):
            requests.append(t.comm.Isend([payload(size, t.rank, peer, size), MPI.BYTE], peer, tag))
            t.moved(size)
    MPI.Request.Waitall(requests)
    for peer, size, buffer in receives:
        buffer.check(f"{size} bytes from {peer}", payload(size, peer, t.rank, size))


@case
def waiting(t):
    """Waitany, Waitsome, Testsome, Testall see each request once."""
    def exchange(wait):
        buffers = [(peer, tag, Buffer(size)) for peer in t.others for tag, size in enumerate(MIXED)]
        receives = [t.comm.Irecv(buffer.view, peer, tag) for peer, tag, buffer in buffers]
        sends = [t.comm.Isend([payload(size, t.rank, tag), MPI.BYTE], peer, tag) for peer in t.others for tag, size in enumerate(MIXED)]
        seen = []
        while len(seen) < len(receives):
            seen += wait(receives)
        MPI.Request.Waitall(sends)
        expect_equal("the requests that were reported", sorted(seen), list(range(len(receives))))
        for peer, tag, buffer in buffers:
            buffer.check(f"message {tag} from {peer}", payload(MIXED[tag], peer, tag))
        t.moved(sum(MIXED) * len(t.others))

    exchange(lambda requests: [MPI.Request.Waitany(requests)])
    exchange(lambda requests: MPI.Request.Waitsome(requests) or [])
    exchange(lambda requests: MPI.Request.Testsome(requests) or [])
    exchange(lambda requests: list(range(len(requests))) if MPI.Request.Testall(requests) else [])


@case
def wildcards(t):
    """Any source, any tag, both: each message once, those of one sender in order."""
    rounds = 6
    if t.rank != 0:
        for tag in range(rounds * len(MIXED)):
            size = MIXED[tag % len(MIXED)]
            t.comm.Send([payload(size, t.rank, tag), MPI.BYTE], 0, tag)
            t.sent(size)
        return
    t.comm.Iprobe()  # some are here already, some not yet
    expected = {source: 0 for source in t.others}
    total = rounds * len(MIXED) * len(t.others)
    for number in range(total):
        # A receive that names the source takes what that one sends next; so does one that names the tag.
        open_sources = [source for source, tag in expected.items() if tag < rounds * len(MIXED)]
        source = MPI.ANY_SOURCE if number % 3 else open_sources[0]
        tag = MPI.ANY_TAG if number % 2 else min(expected[s] for s in open_sources)
        if source != MPI.ANY_SOURCE and tag != MPI.ANY_TAG:
            tag = expected[source]
        buffer, status = Buffer(max(MIXED)), MPI.Status()
        t.comm.Recv(buffer.view, source, tag, status)
        source, tag = status.Get_source(), status.Get_tag()
        expect_equal(f"the next tag from {source}", tag, expected[source])
        expected[source] += 1
        size = MIXED[tag % len(MIXED)]
        expect_equal("the count", status.Get_count(MPI.BYTE), size)
        buffer.check(f"message {tag} from {source}", payload(size, source, tag))
        t.received(size)


@case
def order(t):
    """300 messages of one tag arrive in order, whatever their sizes; those of many tags can be taken in reverse."""
    sizes = [random.Random(i).choice((4, 300, 9000, 30_000, 100_000)) for i in range(300)]
    if t.rank == 0:
        requests = [t.comm.Isend([number.to_bytes(4, "little") + payload(size - 4, number), MPI.BYTE], 1, 5) for number, size in enumerate(sizes)]
        requests += [t.comm.Isend([payload(50 * tag, tag), MPI.BYTE], 1, 100 + tag) for tag in range(50)]
        MPI.Request.Waitall(requests)
        t.sent(sum(sizes))
    elif t.rank == 1:
        early = [(number, Buffer(100_000)) for number in range(100)]
        requests = [t.comm.Irecv(buffer.view, 0, 5) for _, buffer in early]
        MPI.Request.Waitall(requests)
        late = [(number, Buffer(100_000)) for number in range(100, 300)]
        for _, buffer in late:
            t.comm.Recv(buffer.view, 0, 5)
        for number, buffer in early + late:
            buffer.check(f"message {number}", number.to_bytes(4, "little") + payload(sizes[number] - 4, number))
        for tag in reversed(range(50)):
            buffer = Buffer(50 * tag)
            t.comm.Recv(buffer.view, 0, 100 + tag)
            buffer.check(f"tag {tag}", payload(50 * tag, tag))
        t.received(sum(sizes))


@case
def probe(t):
    """Probe and Iprobe tell source, tag and size, and take nothing."""
    if t.rank != 0:
        for tag, size in enumerate(MIXED):
            t.comm.Send([payload(size, t.rank, tag), MPI.BYTE], 0, tag)
            t.sent(size)
        return
    for number in range(len(MIXED) * len(t.others)):
        status = MPI.Status()
        if number % 2:
            t.comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        else:
            while not t.comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                pass
        source, tag, size = status.Get_source(), status.Get_tag(), status.Get_count(MPI.BYTE)
        expect_equal("the probed size", size, MIXED[tag])
        buffer = Buffer(size)
        t.comm.Recv(buffer.view, source, tag)
        buffer.check(f"message {tag} from {source}", payload(size, source, tag))
        t.received(size)
    expect(not t.comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG), "a message is left")


@case
def matched_probe(t):
    """Mprobe and Improbe take the message, and only Mrecv and Imrecv get it then."""
    if t.rank != 0:
        # The next may come before this one has been received.
        MPI.Request.Waitall([t.comm.Isend([payload(size, t.rank, tag), MPI.BYTE], 0, 7) for tag, size in enumerate(MIXED)])
        t.sent(sum(MIXED))
        return
    taken = {source: [] for source in t.others}
    for number in range(len(MIXED) * len(t.others)):
        status = MPI.Status()
        if number % 2:
            message = t.comm.Mprobe(MPI.ANY_SOURCE, 7, status)
        else:
            while (message := t.comm.Improbe(MPI.ANY_SOURCE, 7, status)) is None:
                pass
        taken[status.Get_source()].append((message, status.Get_count(MPI.BYTE)))
    for source, messages in taken.items():
        expect_equal("the probed sizes", [size for _, size in messages], list(MIXED))
        for tag, (message, size) in reversed(list(enumerate(messages))):
            buffer = Buffer(size)
            if tag % 2:
                message.Recv(buffer.view)
            else:
                message.Irecv(buffer.view).Wait()
            buffer.check(f"message {tag} from {source}", payload(size, source, tag))
            t.received(size)


@case
def modes(t):
    """A synchronous send ends only when it is received; buffered ones at once; ready ones find their receive."""
    for size in MIXED:
        if t.rank == 0:
            request = t.comm.Issend([payload(size, 1), MPI.BYTE], 1, 1)
            t.comm.Recv(bytearray(1), 1, 2)  # rank 1 is there and has not posted its receive
            for _ in range(100):
                expect(not request.Test(), f"a synchronous send of {size} bytes ended before its receive was posted")
            t.comm.Send(b"g", 1, 3)
            request.Wait()
            t.comm.Ssend([payload(size, 2), MPI.BYTE], 1, 4)
            t.sent(2 * size)
        elif t.rank == 1:
            t.comm.Send(b"t", 0, 2)
            t.comm.Recv(bytearray(1), 0, 3)
            for seed, tag in ((1, 1), (2, 4)):
                buffer = Buffer(size)
                t.comm.Recv(buffer.view, 0, tag)
                buffer.check(f"synchronous, {size} bytes", payload(size, seed))
            t.received(2 * size)
    buffered(t)
    ready(t)


def buffered(t):
    if t.rank == 0:
        MPI.Attach_buffer(bytearray(2 * sum(MIXED) + 100 * MPI.BSEND_OVERHEAD))
        for tag, size in enumerate(MIXED):
            t.comm.Bsend([payload(size, tag), MPI.BYTE], 1, tag)
        t.comm.Send(b"all", 1, 50)
        MPI.Detach_buffer()
        t.sent(sum(MIXED))
    elif t.rank == 1:
        t.comm.Recv(bytearray(3), 0, 50)
        for tag, size in enumerate(MIXED):
            buffer = Buffer(size)
            t.comm.Recv(buffer.view, 0, tag)
            buffer.check(f"buffered, {size} bytes", payload(size, tag))
        t.received(sum(MIXED))


def ready(t):
    if t.rank == 0:
        t.comm.Recv(bytearray(1), 1, 60)
        for tag, size in enumerate(MIXED):
            t.comm.Rsend([payload(size, tag, "ready"), MPI.BYTE], 1, tag)
        t.sent(sum(MIXED))
    elif t.rank == 1:
        buffers = [Buffer(size) for size in MIXED]
        requests = [t.comm.Irecv(buffer.view, 0, tag) for tag, buffer in enumerate(buffers)]
        t.comm.Send(b"r", 0, 60)
        MPI.Request.Waitall(requests)
        for tag, buffer in enumerate(buffers):
            buffer.check(f"ready, {MIXED[tag]} bytes", payload(MIXED[tag], tag, "ready"))
        t.received(sum(MIXED))


@case
def persistent(t):
    """Persistent requests, started 30 times."""
    buffers = [Buffer(size) for size in MIXED]
    data = [bytearray(size) for size in MIXED]
    requests = [t.comm.Recv_init(buffer.view, t.left, tag) for tag, buffer in enumerate(buffers)]
    requests += [t.comm.Send_init([memory, MPI.BYTE], t.right, tag) for tag, memory in enumerate(data)]
    for number in range(30):
        for tag, memory in enumerate(data):
            memory[:] = payload(len(memory), t.rank, tag, number)
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        for tag, buffer in enumerate(buffers):
            buffer.check(f"message {tag} of round {number}", payload(MIXED[tag], t.left, tag, number))
        t.moved(sum(MIXED))
    for request in requests:
        request.Free()


@case
def unexpected(t):
    """2000 small and 40 large messages from each that nobody waits for yet; the last are taken first."""
    plan = [(tag, 100) for tag in range(2000)] + [(tag, 200_000) for tag in range(2000, 2040)]
    if t.rank != 0:
        requests = [t.comm.Isend([payload(size, t.rank, tag), MPI.BYTE], 0, tag) for tag, size in plan]
        t.comm.Barrier()
        MPI.Request.Waitall(requests)
        t.sent(sum(size for _, size in plan))
        return
    t.comm.Barrier()
    for tag, size in reversed(plan):
        for source in t.others:
            buffer = Buffer(size)
            t.comm.Recv(buffer.view, source, tag)
            buffer.check(f"message {tag} from {source}", payload(size, source, tag))
            t.received(size)


@case
def backwards(t):
    """120 MB in messages of 40 KB that nobody waits for: more than is kept, and the last ones are taken first."""
    number, size = 3000, 40_000
    if t.rank == 1:
        data = payload(size, 1)
        requests = [t.comm.Isend([data, MPI.BYTE], 0, tag) for tag in range(number)]
        MPI.Request.Waitall(requests)
        t.sent(number * size)
    elif t.rank == 0:
        expected, buffer = payload(size, 1), Buffer(size)
        for tag in reversed(range(number)):
            t.comm.Recv(buffer.view, 1, tag)
            buffer.check(f"message {tag}", expected)
            t.received(size)


@case
def flood(t):
    """20 000 messages of 1 KB, of which none is waited for until most are on their way: the sender may have to wait, and nothing is lost."""
    number, size = 20_000, 1000
    if t.rank == 1:
        t.comm.Send(b"now", 0, number)
        MPI.Request.Waitall([t.comm.Isend([payload(size, tag), MPI.BYTE], 0, tag) for tag in range(number)])
        t.sent(number * size)
    elif t.rank == 0:
        t.comm.Recv(bytearray(3), 1, number)
        time.sleep(FLOOD_S)
        for tag in range(number):
            buffer = Buffer(size)
            t.comm.Recv(buffer.view, 1, tag)
            buffer.check(f"message {tag}", payload(size, tag))
        t.received(number * size)


@case
def overtaking(t):
    """12 000 nonblocking sends of one tag, none of them waited for, and then one of another tag, which is: for messages that go out at once, and for such that stay with their sender."""
    number = 12_000
    for size in (8, 1000, 16_000, 20_000):
        data = payload(size, size)
        if t.rank == 1:
            requests = [t.comm.Isend([data, MPI.BYTE], 0, 1) for _ in range(number)]
            requests.append(t.comm.Isend([data, MPI.BYTE], 0, 2))
            MPI.Request.Waitall(requests)
            t.sent((number + 1) * size)
        elif t.rank == 0:
            for tag in [2] + [1] * number:
                buffer = Buffer(size)
                t.comm.Recv(buffer.view, 1, tag)
                buffer.check(f"a message with tag {tag}", data)
            t.received((number + 1) * size)


@case
def posted(t):
    """1000 receives wait; their messages come in another order."""
    tags = list(range(1000))
    buffers = {(peer, tag): Buffer(tag * 20) for peer in t.others for tag in tags}
    receives = [t.comm.Irecv(buffer.view, peer, tag) for (peer, tag), buffer in buffers.items()]
    t.comm.Barrier()
    random.Random(t.rank).shuffle(tags)
    sends = [t.comm.Isend([payload(tag * 20, t.rank, tag), MPI.BYTE], peer, tag) for tag in tags for peer in t.others]
    MPI.Request.Waitall(receives + sends)
    for (peer, tag), buffer in buffers.items():
        buffer.check(f"message {tag} from {peer}", payload(tag * 20, peer, tag))
        t.moved(tag * 20)


@case
def truncated(t):
    """A message longer than its receive is an error of that receive alone."""
    t.comm.Set_errhandler(MPI.ERRORS_RETURN)
    for late in (False, True):
        for size, room in ((100, 50), (20_000, 10_000), (100_000, 1000), (3_000_000, 1000)):
            if t.rank == 0:
                t.comm.Barrier()
                t.comm.Send([payload(size, 1), MPI.BYTE], 1, 1)
                t.comm.Send([payload(size, 2), MPI.BYTE], 1, 1)
            elif t.rank == 1:
                buffers = Buffer(room), Buffer(size)
                if late:
                    t.comm.Barrier()
                requests = [t.comm.Irecv(buffer.view, 0, 1) for buffer in buffers]
                if not late:
                    t.comm.Barrier()
                expect_equal(f"the outcome of {size} bytes into {room}", error_class(requests[0]), MPI.ERR_TRUNCATE)
                expect_equal("the outcome of the next", error_class(requests[1]), MPI.SUCCESS)
                buffers[1].check("the next message", payload(size, 2))
                buffers[0].check("the cut message", bytes(buffers[0].memory[16:16 + room]))  # nothing around it
            else:
                t.comm.Barrier()


def error_class(request):
    try:
        request.Wait()
    except MPI.Exception as error:
        return error.Get_error_class()
    return MPI.SUCCESS


@case
def cancelled(t):
    """A receive that was cancelled takes nothing."""
    cancelled_one, buffer = Buffer(8), Buffer(8)
    request = t.comm.Irecv(cancelled_one.view, t.left, 9)
    status = MPI.Status()
    request.Cancel()
    request.Wait(status)
    expect(status.Is_cancelled(), "the receive was not cancelled")
    t.comm.Barrier()
    t.comm.Sendrecv([payload(8, t.rank), MPI.BYTE], t.right, 9, buffer.view, t.left, 9)
    buffer.check("the message", payload(8, t.left))
    cancelled_one.check("the cancelled receive", b"")


@case
def exchange(t):
    """8 MiB in all directions at once; a send and receive in place."""
    size = 8 << 20
    buffers = [(peer, Buffer(size)) for peer in t.others]
    sends = [t.comm.Isend([payload(size, t.rank, peer), MPI.BYTE], peer) for peer in t.others]
    receives = [t.comm.Irecv(buffer.view, peer) for peer, buffer in buffers]
    MPI.Request.Waitall(sends + receives)
    for peer, buffer in buffers:
        buffer.check(f"from {peer}", payload(size, peer, t.rank))
        t.moved(size)
    for size in MIXED:
        memory = bytearray(payload(size, t.rank))
        t.comm.Sendrecv_replace([memory, MPI.BYTE], t.right, 3, t.left, 3)
        expect(memory == payload(size, t.left), f"{size} bytes in place are wrong")
        t.moved(size)


@case
def datatypes(t):
    """Columns of a matrix sent, rows received."""
    rows, columns = 300, 200
    for width in (1, 50):
        column = MPI.BYTE.Create_vector(rows, width, columns).Commit()
        matrix = payload(rows * columns, t.rank)
        buffer = Buffer(rows * width)
        t.comm.Sendrecv([matrix, 1, column], t.right, 0, buffer.view, t.left, 0)
        theirs = payload(rows * columns, t.left)
        buffer.check(f"a column {width} wide", b"".join(theirs[row * columns:row * columns + width] for row in range(rows)))
        scattered = bytearray(rows * columns)
        t.comm.Sendrecv(buffer.view, t.right, 1, [scattered, 1, column], t.left, 1)
        expect(any(scattered), "nothing was scattered")
        column.Free()
        t.moved(2 * rows * width)


@case
def to_itself(t):
    """Messages of a rank to itself."""
    for size in MIXED:
        buffer = Buffer(size)
        request = t.comm.Irecv(buffer.view, t.rank, 1)
        t.comm.Send([payload(size, t.rank), MPI.BYTE], t.rank, 1)
        request.Wait()
        buffer.check(f"{size} bytes", payload(size, t.rank))


@case
def communicators(t):
    """100 communicators, the same tags in all: nothing is mixed."""
    comms = [t.comm.Dup() for _ in range(80)]
    comms += [t.comm.Split(0, (t.rank * (number + 1)) % t.size) for number in range(20)]
    buffers = [Buffer(40) for _ in comms]
    receives = [comm.Irecv(buffer.view, MPI.ANY_SOURCE, 1) for comm, buffer in zip(comms, buffers)]
    sends = []
    for number, comm in reversed(list(enumerate(comms))):
        sends.append(comm.Isend([payload(40, number, comm.rank), MPI.BYTE], (comm.rank + 1) % comm.size, 1))
    MPI.Request.Waitall(receives + sends)
    for number, (comm, buffer) in enumerate(zip(comms, buffers)):
        buffer.check(f"communicator {number}", payload(40, number, (comm.rank - 1) % comm.size))
    for comm in comms:
        comm.Free()
    for _ in range(100):
        t.comm.Dup().Free()
    t.moved(40 * 80)


@case
def large(t):
    """One message of 2 GiB and 1 MiB, from rank 0 to rank 1."""
    block = payload(1 << 20, "block")
    blocks = 2049
    mebibyte = MPI.BYTE.Create_contiguous(1 << 20).Commit()
    if t.rank == 0:
        memory = MPI.Alloc_mem(blocks << 20)
        for number in range(blocks):
            memory[number << 20:(number << 20) + (1 << 20)] = block
            memory[number << 20:(number << 20) + 4] = number.to_bytes(4, "little")
        t.comm.Send([memory, blocks, mebibyte], 1, 1)
        MPI.Free_mem(memory)
        t.sent(blocks << 20)
    elif t.rank == 1:
        memory = MPI.Alloc_mem(blocks << 20)
        status = MPI.Status()
        t.comm.Recv([memory, blocks, mebibyte], 0, 1, status)
        expect_equal("the count", status.Get_count(mebibyte), blocks)
        view = memoryview(memory)
        for number in range(blocks):
            at = number << 20
            expect(view[at:at + 4] == number.to_bytes(4, "little") and view[at + 4:at + (1 << 20)] == block[4:], f"block {number} is wrong")
        view.release()
        MPI.Free_mem(memory)
        t.received(blocks << 20)
    mebibyte.Free()
