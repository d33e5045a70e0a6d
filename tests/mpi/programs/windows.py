"""One-sided communication."""

import os
import time
from array import array

from mpi4py import MPI

from frame import SIZES, case, expect, expect_equal, payload

SLOT = 4 << 20
SILENCE_S = 20


class Window:
    """Memory of this rank that the others may read and write."""

    def __init__(self, comm, length, unit=1):
        self.win = MPI.Win.Allocate(length, unit, comm=comm)
        self.memory = memoryview(self.win.tomemory()).cast("B")
        self.memory[:] = bytes(length)
        comm.Barrier()

    def __enter__(self):
        return self.win, self.memory

    def __exit__(self, *failure):
        if failure[0] is None:
            self.memory.release()
            self.win.Free()


def own(win):
    """What others have written is there for this process now, and the other way round."""
    win.Sync()


@case
def fence(t):
    """Puts and gets of all sizes between fences."""
    with Window(t.comm, SLOT) as (win, memory):
        for size in SIZES:
            win.Fence()
            win.Put([t.keep(payload(size, t.rank, size)), MPI.BYTE], t.right)
            win.Fence()
            expect(memory[:size] == payload(size, t.left, size), f"{size} bytes that {t.left} has put are wrong")
            got = bytearray(size)
            win.Get([got, MPI.BYTE], t.right)
            win.Fence(MPI.MODE_NOSUCCEED)
            expect(got == payload(size, t.rank, size), f"{size} bytes that were got from {t.right} are wrong")
            t.moved(2 * size)


@case
def many_puts(t):
    """Some hundred small puts and gets to all between two fences, each to its own place."""
    number, size = 300, 24
    with Window(t.comm, number * size * t.size) as (win, memory):
        win.Fence()
        for index in range(number):
            for peer in t.others:
                win.Put([t.keep(payload(size, t.rank, peer, index)), MPI.BYTE], peer, (t.rank * number + index) * size)
        win.Fence()
        for peer in t.others:
            for index in range(number):
                at = (peer * number + index) * size
                expect(memory[at:at + size] == payload(size, peer, t.rank, index), f"put {index} of {peer} is wrong")
        got = [(peer, index, bytearray(size)) for peer in t.others for index in range(number)]
        for peer, index, part in got:
            win.Get([part, MPI.BYTE], peer, (t.rank * number + index) * size)
        win.Fence()
        for peer, index, part in got:
            expect(part == payload(size, t.rank, peer, index), f"get {index} from {peer} is wrong")
        t.moved(2 * number * size * len(t.others))


# Each operation with what it makes of the numbers 0, 1, 2, ... in turn, starting from 5.
OPERATIONS = (
    (MPI.SUM, lambda before, values: before + sum(values)),
    (MPI.PROD, lambda before, values: [before := before * value for value in values][-1]),
    (MPI.MIN, lambda before, values: min(before, *values)),
    (MPI.MAX, lambda before, values: max(before, *values)),
)
BITS = (
    (MPI.BAND, lambda before, values: [before := before & value for value in values][-1]),
    (MPI.BOR, lambda before, values: [before := before | value for value in values][-1]),
    (MPI.BXOR, lambda before, values: [before := before ^ value for value in values][-1]),
)
TYPES = (("b", MPI.SIGNED_CHAR), ("H", MPI.UNSIGNED_SHORT), ("i", MPI.INT), ("Q", MPI.UINT64_T), ("q", MPI.INT64_T), ("f", MPI.FLOAT), ("d", MPI.DOUBLE))


@case
def accumulate(t):
    """Every operation on several types, all ranks on the same target at once; replacements, and lengths over what fits one atomic."""
    for code, kind in TYPES:
        for operation, fold in OPERATIONS + (() if code in "fd" else BITS):
            for count in (1, 700):
                accumulate_once(t, code, kind, operation, fold, count)
    count = 50_000
    with Window(t.comm, 8 * count, 8) as (win, memory):
        win.Fence()
        for peer in t.others:
            win.Accumulate([t.keep(array("d", range(count))), MPI.DOUBLE], peer, op=MPI.SUM)
        win.Fence()
        expect(memory.cast("d").tolist() == [i * (t.size - 1) for i in range(count)], "the long sum is wrong")
        win.Fence()
        win.Accumulate([t.keep(array("d", [t.rank + 1.5] * count)), MPI.DOUBLE], t.right, op=MPI.REPLACE)
        win.Fence()
        expect(memory.cast("d").tolist() == [t.left + 1.5] * count, "the replacement is wrong")
        t.moved(8 * count * t.size)


def accumulate_once(t, code, kind, operation, fold, count):
    unit = array(code).itemsize
    with Window(t.comm, unit * count, unit) as (win, memory):
        memory.cast(code)[0:count] = array(code, [5] * count)
        values = [1 + rank % 3 for rank in range(t.size)]
        win.Fence()
        for target in range(t.size):
            win.Accumulate([t.keep(array(code, [values[t.rank]] * count)), kind], target, op=operation)
        win.Fence()
        expect_equal(f"{MPI.Op.Get_name(operation) if hasattr(operation, 'Get_name') else operation} of {count} {kind.name}",
                     memory.cast(code).tolist(), [fold(5, values)] * count)
    t.moved(unit * count * (t.size - 1))


@case
def get_accumulate(t):
    """What was there comes back, and each rank sees another value."""
    for count in (1, 5000):
        with Window(t.comm, 8 * count, 8) as (win, memory):
            before = array("q", bytes(8 * count))
            win.Lock(0, MPI.LOCK_SHARED)
            win.Get_accumulate([t.keep(array("q", [1] * count)), MPI.INT64_T], [before, MPI.INT64_T], 0, op=MPI.SUM)
            win.Unlock(0)
            everything = t.comm.allgather(before.tolist())
            for element in zip(*everything):
                expect_equal("the values that were there", sorted(element), list(range(t.size)))
            t.comm.Barrier()
            win.Lock(0, MPI.LOCK_SHARED)
            after = array("q", bytes(8 * count))
            win.Get_accumulate([t.keep(array("q", [7] * count)), MPI.INT64_T], [after, MPI.INT64_T], 0, op=MPI.NO_OP)
            win.Unlock(0)
            expect_equal("the sum", after.tolist(), [t.size] * count)
            if t.rank != 0:
                t.sent(8 * count)
                t.received(16 * count)


@case
def fetch_and_op(t):
    """A counter that all draw from: each number once."""
    number = 200
    for code, kind in (("q", MPI.INT64_T), ("i", MPI.INT), ("d", MPI.DOUBLE)):
        with Window(t.comm, 8, array(code).itemsize) as (win, memory):
            drawn = []
            win.Lock_all()
            for _ in range(number):
                before = array(code, [0])
                win.Fetch_and_op([t.keep(array(code, [1])), kind], [before, kind], 0, 0, MPI.SUM)
                win.Flush(0)
                drawn.append(before[0])
            win.Unlock_all()
            everything = sorted(sum(t.comm.allgather(drawn), []))
            expect(everything == list(range(number * t.size)), f"numbers of {kind.name} were drawn twice or never")
            if t.rank != 0:
                t.moved(number * array(code).itemsize)


@case
def compare_and_swap(t):
    """A lock made of it: what is done under it is never lost."""
    number = 50
    with Window(t.comm, 16, 8) as (win, memory):
        win.Lock_all()
        for _ in range(number):
            seen = array("q", [-1])
            while seen[0] != 0:
                win.Compare_and_swap(t.keep(array("q", [t.rank + 1])), t.keep(array("q", [0])), seen, 0, 0)
                win.Flush(0)
            value = array("q", [0])
            win.Get([value, MPI.INT64_T], 0, 1)
            win.Flush(0)
            win.Put([t.keep(array("q", [value[0] + 1])), MPI.INT64_T], 0, 1)
            win.Flush(0)
            win.Compare_and_swap(t.keep(array("q", [0])), t.keep(array("q", [t.rank + 1])), seen, 0, 0)
            win.Flush(0)
            expect_equal("the holder of the lock", seen[0], t.rank + 1)
        win.Unlock_all()
        t.comm.Barrier()
        if t.rank == 0:
            win.Lock(0)
            expect_equal("the count", memory.cast("q")[1], number * t.size)
            win.Unlock(0)
        else:
            t.sent(32 * number)
            t.received(24 * number)


@case
def post_start(t):
    """Post, start, complete, wait; and test."""
    size = 50_000
    world = t.comm.Get_group()
    origins, targets = world.Incl([t.left]), world.Incl([t.right])
    with Window(t.comm, size) as (win, memory):
        for number in range(30):
            win.Post(origins)
            win.Start(targets)
            win.Put([t.keep(payload(size, t.rank, number)), MPI.BYTE], t.right)
            win.Complete()
            if number % 2:
                win.Wait()
            else:
                while not win.Test():
                    pass
            expect(memory[:] == payload(size, t.left, number), f"round {number} is wrong")
            t.moved(size)


@case
def lock(t):
    """Exclusive locks keep others out; shared ones let them in."""
    number = 40
    with Window(t.comm, 16, 8) as (win, memory):
        for _ in range(number):
            value = array("q", [0])
            win.Lock(0, MPI.LOCK_EXCLUSIVE)
            win.Get([value, MPI.INT64_T], 0)
            win.Flush(0)
            win.Put([t.keep(array("q", [value[0] + 1])), MPI.INT64_T], 0)
            win.Unlock(0)
        t.comm.Barrier()
        win.Lock(0, MPI.LOCK_SHARED)
        value = array("q", [0])
        win.Get([value, MPI.INT64_T], 0)
        t.comm.Barrier()  # all are inside together
        win.Unlock(0)
        expect_equal("the count", value[0], number * t.size)
        if t.rank != 0:
            t.moved(8 * number)


@case
def flush(t):
    """Locked for all: puts, flushes of several kinds, gets; requests of single operations."""
    size = 30_000
    with Window(t.comm, 3 * size) as (win, memory):
        win.Lock_all()
        for number in range(20):
            win.Put([t.keep(payload(size, t.rank, number)), MPI.BYTE], t.right)
            win.Flush(t.right)
            got = bytearray(size)
            win.Get([got, MPI.BYTE], t.right)
            win.Flush_local(t.right)
            expect(got == payload(size, t.rank, number), f"what was flushed in round {number} is wrong")
            put = win.Rput([t.keep(payload(size, t.rank, number, "r")), MPI.BYTE], t.right, size)
            put.Wait()
            win.Flush_all()
            win.Rget([got, MPI.BYTE], t.right, size).Wait()
            expect(got == payload(size, t.rank, number, "r"), f"a request of round {number} is wrong")
            t.moved(4 * size)
        win.Flush_local_all()
        win.Raccumulate([t.keep(payload(size, t.rank)), MPI.BYTE], t.right, 2 * size, op=MPI.REPLACE).Wait()
        win.Unlock_all()
        t.comm.Barrier()
        own_part(t, win, memory, size)


def own_part(t, win, memory, size):
    win.Lock(t.rank)
    own(win)
    expect(memory[2 * size:] == payload(size, t.left), "the replaced part is wrong")
    win.Unlock(t.rank)


@case
def memory_kinds(t):
    """Windows over memory of the program's own, and over memory that is attached later."""
    memory = bytearray(100_000)
    win = MPI.Win.Create(memory, comm=t.comm)
    win.Fence()
    win.Put([t.keep(payload(90_000, t.rank)), MPI.BYTE], t.right, 1000)
    win.Fence()
    expect(memory[1000:91_000] == payload(90_000, t.left), "memory of its own is wrong")
    win.Free()
    attached = MPI.Alloc_mem(50_000)
    win = MPI.Win.Create_dynamic(comm=t.comm)
    win.Attach(attached)
    addresses = t.comm.allgather(MPI.Get_address(attached))
    win.Lock_all()
    win.Put([t.keep(payload(40_000, t.rank)), MPI.BYTE], t.right, addresses[t.right])
    win.Unlock_all()
    t.comm.Barrier()
    win.Lock(t.rank)
    own(win)
    expect(memoryview(attached)[:40_000] == payload(40_000, t.left), "attached memory is wrong")
    win.Unlock(t.rank)
    win.Detach(attached)
    win.Free()
    MPI.Free_mem(attached)
    t.moved(130_000)


@case
def datatypes(t):
    """Columns put into columns."""
    rows, columns, width = 100, 300, 20
    column = MPI.BYTE.Create_vector(rows, width, columns).Commit()
    with Window(t.comm, rows * columns) as (win, memory):
        win.Fence()
        win.Put([t.keep(payload(rows * columns, t.rank)), 1, column], t.right, (0, 1, column))
        win.Fence()
        theirs = payload(rows * columns, t.left)
        wanted = b"".join(theirs[at:at + width] + bytes(columns - width) for at in range(0, rows * columns, columns))
        expect(memory[:] == wanted, "the columns are wrong")
    column.Free()
    t.moved(rows * width)


@case
def silent_target(t):
    """A target that makes no MPI call for a while is read and written all the same."""
    size = 200_000
    done = f"{os.environ['SUITE_SCRATCH']}/silent-target"
    with Window(t.comm, size) as (win, memory):
        if t.rank == 0:
            # Libraries take locks by messages that the target must look at.
            win.Lock(1, MPI.LOCK_SHARED)
            win.Flush(1)
            t.comm.Barrier()
            for number in range(10):
                got = bytearray(size)
                win.Put([t.keep(payload(size, number)), MPI.BYTE], 1)
                win.Flush(1)
                win.Get([got, MPI.BYTE], 1)
                win.Flush(1)
                expect(got == payload(size, number), f"round {number} is wrong")
            with open(done, "w", encoding="ascii"):
                pass
            win.Unlock(1)
            t.moved(10 * size)
        else:
            t.comm.Barrier()
            deadline = time.monotonic() + SILENCE_S
            while not os.path.exists(done):
                expect(time.monotonic() < deadline, f"nothing came through in {SILENCE_S} s without a call of the target")
                time.sleep(0.01)
            t.moved(10 * size)
