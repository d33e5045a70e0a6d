"""What every case uses: how a case is declared, bytes that can be checked, and the proof that they went through Weft."""

import faulthandler
import os
import random
import signal
import sys
import time
import traceback

import mpi4py

mpi4py.rc.thread_level = os.environ.get("SUITE_THREADS", "single")

from mpi4py import MPI  # noqa: E402  (initialises)

import board  # noqa: E402

CASES = {}

# Sizes around which messages may change how they travel, and the least of all.
SMALL = (0, 1, 7, 8, 100)
STEPS = (4096, 16 << 10, 64 << 10, 1 << 20)
SIZES = SMALL + tuple(step + near for step in STEPS for near in (-64, -1, 0, 1, 64)) + ((3 << 20) + 5,)

PERIOD = 65521
PATTERN = random.Random(1).randbytes(PERIOD)
GUARD = 16
PROOF_DEADLINE_S = 10


def case(function):
    """Declares a case; its name is MODULE/FUNCTION. The first line of its comment says what it shows."""
    CASES[f"{function.__module__}/{function.__name__}".replace("_", "-")] = function
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def expect_equal(what, seen, wanted):
    expect(seen == wanted, f"{what} is {seen!r}, expected {wanted!r}")


def payload(length, *seed):
    """Bytes that no other seed gives."""
    begin = random.Random(repr(seed)).randrange(PERIOD)
    return (PATTERN * ((begin + length) // PERIOD + 1))[begin:begin + length]


class Buffer:
    """Memory for a message, with bytes around it that must stay as they are."""

    def __init__(self, length):
        self.memory = bytearray(b"\xa5") * (length + 2 * GUARD)
        self.length = length

    @property
    def view(self):
        return [memoryview(self.memory)[GUARD:GUARD + self.length], MPI.BYTE]

    def check(self, what, wanted):
        """`wanted` may be shorter than the memory: what follows it must be untouched."""
        end = GUARD + len(wanted)
        seen = memoryview(self.memory)
        if seen[GUARD:end] != wanted:
            at = next(i for i, (a, b) in enumerate(zip(seen[GUARD:end], wanted)) if a != b)
            raise AssertionError(f"{what}: byte {at} of {len(wanted)} is {seen[GUARD + at]:#x}, expected {wanted[at]:#x}")
        untouched = bytes(seen[:GUARD]) + bytes(seen[end:])
        expect(untouched == b"\xa5" * len(untouched), f"{what}: bytes around the {len(wanted)} of the message were written")


class Test:
    """What a case works with."""

    def __init__(self, name):
        self.name = name
        self.comm = MPI.COMM_WORLD.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.right, self.left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self.others = [rank for rank in range(self.size) if rank != self.rank]
        self.out, self.into = 0, 0
        self.kept = []

    def keep(self, memory):
        """Memory that is to live until the case ends: mpi4py does not see to what one-sided operations work with."""
        self.kept.append(memory)
        return memory

    def sent(self, length):
        """This rank has sent so many bytes to other ranks, at least."""
        self.out += length

    def received(self, length):
        self.into += length

    def moved(self, length):
        """The same, in both directions."""
        self.sent(length)
        self.received(length)


class Proof:
    """Whether Weft has carried what the cases say that they have sent."""

    def __init__(self):
        self.wanted = bool(os.environ.get("SUITE_PROOF"))
        self.totals = {}

    def look(self):
        return board.counters() if self.wanted else None

    def check(self, test, before):
        if not self.wanted:
            return
        out, into = self.measure(test, before)
        expect(out >= test.out and into >= test.into,
               f"rank {test.rank} has sent {test.out} bytes and received {test.into}, but Weft has counted {out} and {into}")
        kind = "one-sided" if test.name.startswith("windows/") else "messages"
        total = self.totals.setdefault(kind, [0, 0, 0, 0])
        self.totals[kind] = [a + b for a, b in zip(total, (test.out, out, test.into, into))]

    def measure(self, test, before):
        """Counters are shown now and then, so what is missing may yet come."""
        deadline = time.monotonic() + PROOF_DEADLINE_S
        while True:
            now = board.counters()
            expect(now is not None, f"rank {test.rank} has no NIC of Weft that shows its counters")
            out, into = (now[name] - (before or {}).get(name, 0) for name in ("sent_wire_bytes", "received_wire_bytes"))
            if (out >= test.out and into >= test.into) or time.monotonic() > deadline:
                return out, into
            time.sleep(0.01)

    def tell(self, rank):
        for kind, (payload_out, out, payload_in, into) in self.totals.items():
            line(f"proof {kind}: rank {rank} sent {payload_out} bytes, Weft {out}; received {payload_in}, Weft {into}")


def line(text):
    """One write, so that the lines of several ranks stay whole."""
    sys.stdout.flush()
    os.write(1, f"@{text}\n".encode())


def run(names):
    """Runs cases, each behind a barrier. The first that fails ends the job."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    proof = Proof()
    world = MPI.COMM_WORLD
    for name in names:
        began = time.monotonic()
        if world.rank == 0:
            line(f"begin {name}")
        try:
            test = Test(name)
            # Behind the barrier others may be ahead, and what they send is this case's.
            before = proof.look()
            test.comm.Barrier()
            CASES[name](test)
            test.comm.Barrier()
            proof.check(test, before)
            test.comm.Free()
        except BaseException:
            line(f"failed {name}: rank {world.rank}: {traceback.format_exc().strip().splitlines()[-1]}")
            traceback.print_exc()
            sys.stderr.flush()
            world.Abort(1)
        world.Barrier()
        if world.rank == 0:
            line(f"passed {name} {time.monotonic() - began:.2f}")
    proof.tell(world.rank)
