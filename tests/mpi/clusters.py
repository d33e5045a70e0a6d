"""Programs across two clusters of a lab, started by `weft lab mpiexec`."""

import os
import re
import subprocess

from extra import Failure, finish, report
from harness import PROGRAMS, Scratch
from lab import LIMIT_S, LabError

ROOT = os.path.abspath(os.path.join(PROGRAMS, "..", "..", ".."))
SHAPE, WAN, RANKS = "2x4", "8ms,1G", 8
OVER = ("weft", "weft-edge", "tcp")
# A program's source, its arguments, and what it says when all went well: the digest of the keys is the same over all.
CASES = {
    "bucketsort": (os.path.join(ROOT, "examples", "bucketsort.c"), ("20000", "3"), r"^sorted 5133b4ca004d550f$"),
    "patterns": (os.path.join(PROGRAMS, "across.c"), ("3",), r"^ring: well.*\nall-to-all: well.*\nhalo: well"),
}


class Clusters:
    """A lab of two clusters; dropping it with `close` ends it."""

    def __init__(self, weft):
        self.weft, self.name = weft, f"mpi{os.getpid()}-clusters"
        self.call("up", "--name", self.name, "--cluster", SHAPE, "--wan", WAN)

    def call(self, *arguments):
        ended = subprocess.run([self.weft, "lab", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, check=False, timeout=LIMIT_S)
        if ended.returncode != 0:
            raise LabError(f"weft lab {' '.join(arguments)}: {ended.stdout.strip()}")

    def close(self):
        self.call("down", "--name", self.name)


def run(runner, library, weft, wanted):
    """Each program with a library, over Weft and over libfabric's tcp."""
    names = {(over, what): f"{library.name}/clusters/{over}/{what}" for over in OVER for what in CASES}
    names = {case: name for case, name in names.items() if wanted(name)}
    lacks = "" if library.compiler else "it has no compiler, or no headers"
    try:
        lab = Clusters(weft) if names and not lacks else None
    except LabError as error:
        lab, lacks = None, str(error)
    if not lab:
        for name in names.values():
            runner.report.add("skipped", name, 0, lacks)
        return
    scratch = Scratch()
    try:
        for (over, what), name in names.items():
            report(runner, name, lambda over=over, what=what: play(runner, library, lab, scratch, over, what))
    finally:
        lab.close()
        scratch.remove()


def play(runner, library, lab, scratch, over, what):
    source, arguments, words = CASES[what]
    program = os.path.join(scratch.path, what)
    if not os.path.exists(program):
        finish([library.compiler, "-O1", "-o", program, source], {"PATH": f"{os.path.dirname(library.compiler)}:{os.environ['PATH']}"})
    command = [lab.weft, "lab", "mpiexec", "--name", lab.name, "-n", str(RANKS), "--over", over, "--mpiexec", library.program("mpiexec")]
    environment = {**library.compiled, **runner.provider.environment, "WEFT_BOARDS": scratch.boards}
    told = finish([*command, program, *arguments], environment)
    if not re.search(words, told, re.M):
        raise Failure(f"not well:\n{told}")
