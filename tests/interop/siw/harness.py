"""What every case uses: how a case is declared, programs on the host, and the loop that runs and counts."""

import argparse
import fnmatch
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from typing import Callable, Optional

from vm import LIBC, PR_SET_PDEATHSIG, Vm, VmError, tail

CASE_TIMEOUT_S = 400
CASES = []

# Where the stages of Weft's iWARP path can run, by the names that weft's option --split takes; first its default.
SPLITS = ("host", "coupled", "decoupled", "assist")


class Failure(Exception):
    """The case fails; the text says what was seen and what was expected."""


class Skip(Exception):
    """The case cannot be run; the text says why."""


@dataclass(frozen=True)
class Case:
    plain_name: str
    function: Callable
    arguments: dict
    switches: dict
    what: str
    # Arguments with which it is short.
    short: dict
    # Whether it is one of those for each split, when there is little time; of those without weft, for the first.
    is_essential: bool
    split: str = SPLITS[0]

    def run(self, context):
        self.function(context, **self.arguments)

    @property
    def name(self):
        """What the report calls it."""
        return self.plain_name if self.split == SPLITS[0] else self.plain_name.replace("weft", f"weft[{self.split}]", 1)

    def needs_weft(self):
        return self.plain_name.startswith("weft/")

    def with_split(self, split):
        """The same case, with Weft's stages elsewhere."""
        return replace(self, split=split)

    def shortened(self):
        return replace(self, arguments={**self.arguments, **self.short})


def case(name, switches=None, short=None, essential=False, **arguments):
    """Declares a case. `switches` are siw's; the first line of the function's comment says what the case shows.
    When there is no time for all, every split is tried with those that are `essential`, and the first one with all that
    need weft; each then has the arguments that `short` names."""
    def declare(function):
        what = (function.__doc__ or "").strip().split("\n")[0]
        CASES.append(Case(name, function, arguments, switches or {}, what, short or {}, essential))
        return function
    return declare


def expect(condition, text):
    if not condition:
        raise Failure(text)


def expect_equal(what, seen, wanted):
    if seen != wanted:
        show = (lambda v: v.hex(" ")) if isinstance(wanted, bytes) else repr
        raise Failure(f"{what} is {show(seen)}, expected {show(wanted)}")


def matches(text, pattern):
    return re.search(pattern, text, flags=re.I) is not None


class Program:
    """A program on the host, in a process group of its own, with its output in a file."""

    def __init__(self, command, environment=None):
        self.command = command
        self.output = tempfile.TemporaryFile()
        parent = os.getpid()

        def die_with_parent():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
                                        env=environment, start_new_session=True, preexec_fn=die_with_parent)

    def text(self):
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def wait(self, timeout_s):
        """The exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"`{' '.join(self.command)}` still runs after {timeout_s} s; output: "
                          f"{tail(self.text(), 600)}") from error

    def await_listener(self, port, timeout_s=15):
        """Waits until somebody listens on a TCP port of this machine."""
        deadline = time.monotonic() + timeout_s
        while not is_listening(port):
            if self.process.poll() is not None:
                raise Failure(f"`{' '.join(self.command)}` ended with {self.process.returncode} before it listened; "
                              f"output: {tail(self.text(), 600)}")
            if time.monotonic() > deadline:
                raise Failure(f"`{' '.join(self.command)}` does not listen on port {port} after {timeout_s} s; output: "
                              f"{tail(self.text(), 600)}")
            time.sleep(0.05)

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        self.output.close()


def is_listening(port):
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                        return True
    return False


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Context:
    """What a case works with; ends what the case has started."""

    def __init__(self, runner, split):
        self.runner = runner
        self.vm = runner.vm
        self.split = split
        self.programs, self.jobs, self.closing = [], [], []

    def weft(self, *arguments):
        """Starts the weft binary."""
        split = [] if self.split == SPLITS[0] else ["--split", self.split]
        return self.program([self.runner.weft] + [str(a) for a in arguments] + split)

    def program(self, command):
        if not os.access(command[0], os.X_OK):
            raise Failure(f"there is no program {command[0]}: build it first, or name it with --weft")
        program = Program(command)
        self.programs.append(program)
        return program

    def guest(self, command):
        """Starts a command in the guest."""
        job = self.vm.start(command)
        self.jobs.append(job)
        return job

    def guest_server(self, command, port):
        """Starts a command in the guest and waits until it listens."""
        job = self.guest(command)
        self.vm.await_listener(port)
        return job

    def listener(self):
        """A listening socket of this machine, and its port. The guest reaches it at the address `HOST`."""
        sock = self.close_later(socket.socket())
        sock.bind(("127.0.0.1", 0))
        sock.listen(8)
        sock.settimeout(30)
        return sock, sock.getsockname()[1]

    def close_later(self, thing):
        self.closing.append(thing)
        return thing

    def note(self, text):
        """Something seen that is worth a line in the report."""
        self.runner.notes.append(text)

    def end(self):
        for thing in self.closing:
            thing.close()
        for program in self.programs:
            program.end()
        for job in self.jobs:
            if not job.ended.is_set():
                job.kill()
                job.ended.wait(10)


class Runner:
    def __init__(self, directory, weft, show_notes):
        self.directory, self.weft, self.show_notes = directory, weft, show_notes
        self.vm, self.notes = None, []

    def boot(self):
        if self.vm is None or not self.vm.is_alive():
            if self.vm is not None:
                self.vm.close()
            self.vm = Vm(self.directory)
            print(f"booted the VM in {self.vm.boot_s:.1f} s", flush=True)
        return self.vm

    def reboot(self):
        self.vm.close()
        return self.boot()

    def run(self, cases):
        """Runs the cases; returns the numbers (passed, failed, skipped)."""
        results = {"passed": [], "failed": [], "skipped": []}
        try:
            for one in cases:
                started = time.monotonic()
                outcome, reason = self.run_one(one)
                results[outcome].append((one.name, reason))
                print(f"{outcome:8}{one.name}  ({time.monotonic() - started:.1f} s){': ' + reason if reason else ''}",
                      flush=True)
                if self.show_notes or outcome == "failed":
                    for note in self.notes:
                        print(f"          {note}", flush=True)
        finally:
            if self.vm is not None:
                self.vm.close()
        self.summary(results, cases)
        return tuple(len(results[k]) for k in ("passed", "failed", "skipped"))

    def summary(self, results, cases):
        splits = [split for split in SPLITS if any(c.split == split for c in cases)]
        for split in splits if len(splits) > 1 else ():
            names = {c.name for c in cases if c.needs_weft() and c.split == split}
            counts = (f"{sum(name in names for name, _ in results[outcome])} {outcome}" for outcome in results)
            print(f"split {split}: {', '.join(counts)} of the cases with weft")
        for outcome in ("failed", "skipped"):
            for name, reason in results[outcome]:
                print(f"{outcome}: {name}: {reason.splitlines()[0] if reason else ''}")
        print(", ".join(f"{len(results[outcome])} {outcome}" for outcome in results))

    def run_one(self, one):
        self.notes = []
        context = None
        with alarm(CASE_TIMEOUT_S):
            try:
                self.load_siw(one.switches)
                context = Context(self, one.split)
                one.run(context)
                return "passed", ""
            except Skip as reason:
                return "skipped", str(reason)
            except (Failure, VmError) as reason:
                return "failed", str(reason)
            except Exception as error:  # a case must not take the others with it
                where = traceback.extract_tb(error.__traceback__)[-1]
                return "failed", f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
            finally:
                if context is not None:
                    context.end()

    def load_siw(self, switches):
        """A siw that somebody still holds is not worth an inquiry: a new VM is."""
        vm = self.boot()
        try:
            vm.load_siw(**switches)
        except VmError:
            self.reboot().load_siw(**switches)


class alarm:
    """Raises in the main thread when the time is up."""

    def __init__(self, timeout_s):
        self.timeout_s = timeout_s

    def __enter__(self):
        def ring(*_):
            raise Failure(f"the case was not done after {self.timeout_s} s")
        self.before = signal.signal(signal.SIGALRM, ring)
        signal.alarm(self.timeout_s)

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)


def with_splits(cases, splits, essential_only=False):
    """The cases that need weft, once for each split; the others belong to the first split. With `essential_only` only
    what is essential, except those with weft of the first split, and all in short. Returns (cases, those that were left
    out for that)."""
    chosen, left_out = [], []
    for split in splits:
        first = split == SPLITS[0]
        of_split = [c.with_split(split) for c in cases if c.needs_weft() or first]
        if essential_only:
            is_left = lambda c: not c.is_essential and not (first and c.needs_weft())  # noqa: E731
            left_out += [c for c in of_split if is_left(c)]
            of_split = [c.shortened() for c in of_split if not is_left(c)]
        chosen += of_split
    return chosen, left_out


def select(cases, pattern):
    """Cases whose name, with or without the split in it, matches a shell pattern or contains the text."""
    def fits(name):
        return fnmatch.fnmatch(name, pattern) or pattern in name
    return [c for c in cases if not pattern or fits(c.name) or fits(c.plain_name)]


def splits(text):
    """The value of an option --split."""
    names = text.split(",")
    unknown = [name for name in names if name not in SPLITS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no split {', '.join(unknown)}; there are {', '.join(SPLITS)}")
    return names
