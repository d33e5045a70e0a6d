"""Cases that are no groups of the suite: a rank that is killed, and libfabric's own programs."""

import os
import re
import socket
import time
from dataclasses import dataclass

from harness import LINES_SHOWN, PROGRAMS, Scratch
from libraries import Provider, Start
from processes import Job, Patience

RANKS = 3
DEATH_LIMIT_S = 60
PING_PONG_LIMIT_S = 60
PROGRAM_LIMIT_S = 30
# Lines of onesided.c.
RESULTS = 11
# What heat.c is given, and the checksum of the plate that comes out, which crates/weft/tests/halo.rs computes as well.
HEAT_RANKS, HEAT, PLATE = 4, ("64", "50"), "ef8bbf1794fa5b0b"
# So many sizes fi_pingpong tries at least.
LEAST_SIZES = 20


class Failure(Exception):
    """The case fails; the text says what was seen."""


def killed(runner, library, what):
    """A rank is killed in mid-transfer: the job ends in time, with an error, and nothing of it is left."""
    scratch = Scratch()
    start = Start(RANKS)
    job = runner.start(library, start, [os.path.join(PROGRAMS, "killed.py"), what], scratch)

    def watch():
        reason = judge_death(job, job.finish(DEATH_LIMIT_S, RANKS), what, scratch)
        if reason:
            raise Failure(f"{reason}\n{job.shown()}\n{job.text()}")

    report(runner, f"{library.name}/killed/{what}", watch)
    job.end()
    scratch.remove()


def judge_death(job, code, what, scratch):
    text = job.text()
    if len([name for name in os.listdir(scratch.path) if name.startswith("alive")]) != RANKS:
        return f"not all ranks came so far (exit code {code})"
    if code is None:
        return f"the job still runs {DEATH_LIMIT_S} s after a rank was killed"
    if code == 0:
        return "the job ended with exit code 0 although a rank was killed"
    if what == "survivors" and not re.search("MPI_Send.*failed", read(os.path.join(scratch.path, "stderr"))):
        return "no error reached the rank that sent to the dead one"
    left = job.left_over()
    return f"the job has ended, but there still run: {', '.join(left)}" if left else ""


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# Cases of `programs/onesided.c` with libweft-mpi.so preloaded: ranks, and the program's argument.
PRELOADED = {"two": (2, ""), "five": (5, ""), "outside": (2, "outside"), "nobody": (2, "nobody"), "tcp": (3, ""),
             "abi": (3, "")}
# The others have no compiler for the standard ABI of MPI 5.0; and over tcp one is enough.
ONLY_MPICH = ("tcp", "abi")
PRELOAD_FILES = ("libweft-mpi.so", "libweft_mpi.so")
WINDOWS_OF_WEFT = re.compile(r"weft-mpi: rank \d+: windows: Weft (\d+), the library (\d+); .*?, puts (\d+)")
WRONG = {
    "outside": "MPI_Put: 4 bytes from 16 on in the window of rank 0",
    "nobody": "MPI_Put: rank 2 in a window of 2 ranks",
}

@dataclass(frozen=True)
class Served:
    """A case of `programs/served.c`, or of `programs/served.py` for mpi4py."""
    ranks: int
    # Who serves the windows.
    weft: bool = True
    # Only with these libraries; empty: with all.
    libraries: tuple = ()
    # What is set besides.
    environment: tuple = ()
    # What is said.
    words: str = ""

    def is_for(self, library):
        return not self.libraries or library.name in self.libraries


SERVED = {
    "old": Served(4),
    "old8": Served(8),
    "pairs": Served(4),
    "wide": Served(3),
    "threads": Served(2),
    "silent": Served(2),
    "one": Served(2, words="; by the NIC of libweft-fi.so"),
    "mpi4py": Served(3),
    "mpi4py-off": Served(3, weft=False, environment=("WEFT_MPI=off",)),
    # The others have functions for them, which check nothing.
    "large": Served(2, weft=False, libraries=("openmpi",),
                    words="MPI_Put_c: a count or displacement unit of 2^31 or more"),
}


def preloaded(runner, library, what, directory):
    """A program in C gives the same with its windows served by Weft and by its MPI library."""
    name, (ranks, argument) = f"{library.name}/preloaded/{what}", PRELOADED[what]
    preload = to_preload(runner, library, name, directory)
    if not preload:
        return
    # There a long message goes on only while its sender calls the library.
    provider = Provider("tcp") if what == "tcp" else runner.provider
    scratch = Scratch()

    def play():
        program = compile_program(library, scratch, "onesided", "_abi" if what == "abi" else "")
        # The launcher itself is none of Weft's business.
        command = [*library.command(provider, Start(ranks, one_sided=True)), "env"]
        environment = {**library.environment(provider), **library.compiled, "WEFT_BOARDS": scratch.boards}
        rest = [program, *argument.split()]
        served = finish([*command, f"LD_PRELOAD={preload}", "WEFT_MPI_REPORT=1", *rest], environment)
        ranks_told = [tuple(map(int, found)) for found in WINDOWS_OF_WEFT.findall(served)]
        if len(ranks_told) != ranks or any(not weft or left for weft, left, _ in ranks_told):
            raise Failure(f"not all windows were Weft's:\n{served}")
        if argument:
            if f"{argument}: the right error" not in served or WRONG[argument] not in served:
                raise Failure(f"not the error that it should be:\n{served}")
            return
        if any(not puts for _, _, puts in ranks_told):
            raise Failure(f"not all ranks have put by Weft:\n{served}")
        plain = finish([*command, *rest], environment)
        if results(plain) != results(served) or len(results(plain)) != RESULTS:
            raise Failure(f"over Weft's windows:\n{served}\nwithout:\n{plain}")

    report(runner, name, play)
    scratch.remove()


def served(runner, library, what, directory):
    """A program does well with libweft-mpi.so preloaded, and its windows are served by whom they should be."""
    name, case = f"{library.name}/served/{what}", SERVED[what]
    preload = to_preload(runner, library, name, directory)
    if not preload:
        return
    scratch = Scratch()

    def play():
        is_python = what.startswith("mpi4py")
        program = [library.python, os.path.join(PROGRAMS, "served.py")] if is_python else [
            compile_program(library, scratch, "served"), re.sub(r"\d+$", "", what)]
        command = library.command(runner.provider, Start(case.ranks, one_sided=True))
        command += ["env", f"LD_PRELOAD={preload}", "WEFT_MPI_REPORT=1"]
        compiled = {} if is_python else library.compiled
        environment = {**library.environment(runner.provider), **compiled, "WEFT_BOARDS": scratch.boards}
        told = finish([*command, *case.environment, *program], environment)
        if not re.search(": well$", told, re.M) or case.words not in told:
            raise Failure(f"not well, or not said what should be:\n{told}")
        found = [tuple(map(int, found)) for found in WINDOWS_OF_WEFT.findall(told)]
        wanted = {(weft > 0, left > 0) for weft, left, _ in found}
        if len(found) != case.ranks or wanted != {(case.weft, not case.weft)}:
            raise Failure(f"not all windows were served by whom they should be:\n{told}")

    report(runner, name, play)
    scratch.remove()


def lonely(runner, library, directory):
    """Only one of two ranks has libweft-mpi.so: it says so, for the job stands still."""
    name = f"{library.name}/served/lonely"
    preload = to_preload(runner, library, name, directory)
    if not preload:
        return
    scratch = Scratch()
    jobs = []

    def play():
        program = [compile_program(library, scratch, "served"), "old"]
        command = library.command(runner.provider, Start(1, one_sided=True))
        command += ["env", f"LD_PRELOAD={preload}", *program, ":", "-n", "1", *program]
        environment = {**library.environment(runner.provider), **library.compiled, "WEFT_BOARDS": scratch.boards}
        jobs.append(Job(command, environment))
        patience = Patience(1)
        while "preload libweft-mpi.so in all ranks of the job, or in none" not in jobs[0].text():
            if jobs[0].process.poll() is not None or patience.seconds() > PROGRAM_LIMIT_S:
                raise Failure(f"it is not said that a rank lacks the library:\n{jobs[0].text()}")
            time.sleep(0.1)

    report(runner, name, play)
    for job in jobs:
        job.end()
    scratch.remove()


def heat(runner, library, directory):
    """A stencil computes the bits of examples/halo.rs, with MPI's windows over the provider, and with Weft's."""
    name = f"{library.name}/heat"
    preload = to_preload(runner, library, name, directory)
    if not preload:
        return
    scratch = Scratch()

    def play():
        program = compile_program(library, scratch, "heat")
        command = [*library.command(runner.provider, Start(HEAT_RANKS, one_sided=True)), "env"]
        environment = {**library.environment(runner.provider), **library.compiled, "WEFT_BOARDS": scratch.boards}
        for words in [], [f"LD_PRELOAD={preload}", "WEFT_MPI_REPORT=1"]:
            told = finish([*command, *words, program, *HEAT], environment)
            if f"plate {PLATE}\n" not in told:
                raise Failure(f"not the plate {PLATE}, {' '.join(words)}:\n{told}")
            served = [tuple(map(int, found)) for found in WINDOWS_OF_WEFT.findall(told)]
            if words and (len(served) != HEAT_RANKS or any(left or not puts for _, left, puts in served)):
                raise Failure(f"not all windows were Weft's:\n{told}")

    report(runner, name, play)
    scratch.remove()


def to_preload(runner, library, name, directory):
    """The library to preload. Without it, or without a compiler, the case is skipped."""
    built = [path for path in (os.path.join(directory, file) for file in PRELOAD_FILES) if os.path.exists(path)]
    if built and library.compiler:
        return os.path.abspath(built[0])
    lacks = "it has no compiler, or no headers" if built else f"no {PRELOAD_FILES[1]} in {directory}"
    runner.report.add("skipped", name, 0, lacks)
    return None


def compile_program(library, scratch, name, kind=""):
    program = os.path.join(scratch.path, name)
    finish([library.compiler + kind, "-O1", "-o", program, os.path.join(PROGRAMS, f"{name}.c")],
           {"PATH": f"{os.path.dirname(library.compiler)}:{os.environ['PATH']}"})
    return program


def results(text):
    """What onesided.c says: a word and a sum in each line."""
    return re.findall(r"^([a-z]+ [0-9a-f]+)$", text, re.M)


def fi_info(runner, name, program):
    """The provider is listed, with its settings."""
    def look():
        environment, provider = runner.provider.environment, runner.provider.name
        if f"provider: {provider}" not in finish([program, "-p", provider], environment):
            raise Failure(f"fi_info -p {provider} does not list it")
        if runner.provider.is_weft and "FI_WEFT_" not in finish([program, "-e", "-g", "WEFT"], environment):
            raise Failure("fi_info -e lists no setting FI_WEFT_*")
    report(runner, name, look)


def fi_pingpong(runner, name, program, mode):
    """Data of all sizes goes to and fro between two processes and is verified."""
    scratch = Scratch()
    jobs = []

    def play():
        port = str(free_port())
        command = [program, "-p", runner.provider.name, "-e", "rdm", "-m", mode, "-S", "all", "-I", "20", "-c"]
        environment = {**runner.provider.environment, "WEFT_BOARDS": scratch.boards}
        jobs.append(Job([*command, "-B", port], environment))
        await_listener(jobs[0], int(port))
        jobs.append(Job([*command, "-P", port, "127.0.0.1"], environment))
        for job, who in (jobs[1], "client"), (jobs[0], "server"):
            check_code(job, job.finish(PING_PONG_LIMIT_S), who)
        if len(re.findall(r"^\d+[km]?\s+20\s", jobs[1].text(), re.M)) < LEAST_SIZES:
            raise Failure(f"the client shows too few results\n{jobs[1].shown()}\n{jobs[1].text()}")

    report(runner, name, play)
    for job in reversed(jobs):
        job.end()
    scratch.remove()


def report(runner, name, work):
    """Runs it; of a failure's text the first line is the reason, the others are shown."""
    began, text = time.monotonic(), ""
    try:
        work()
    except Failure as failure:
        text = str(failure)
    reason, *more = text.splitlines() or [""]
    runner.report.add("failed" if reason else "passed", name, time.monotonic() - began, reason)
    runner.report.show("\n".join(more[:1] + more[1:][-LINES_SHOWN:]))


def finish(command, environment):
    """The output of a program that ends well."""
    job = Job(command, environment)
    try:
        check_code(job, job.finish(PROGRAM_LIMIT_S), os.path.basename(command[0]))
        return job.text()
    finally:
        job.end()


def check_code(job, code, who):
    if code != 0:
        outcome = "hangs" if code is None else f"ended with exit code {code}"
        raise Failure(f"{who} {outcome}\n{job.shown()}\n{job.text()}")


def await_listener(job, port):
    patience = Patience(1)
    while not is_listening(port):
        if job.process.poll() is not None or patience.seconds() > PROGRAM_LIMIT_S:
            check_code(job, job.process.poll(), "server")
        time.sleep(0.02)


def is_listening(port):
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                lines = [line.split() for line in file.readlines()[1:]]
            if any(words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port for words in lines):
                return True
    return False


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
