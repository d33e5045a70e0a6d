"""Runs groups of cases as MPI jobs, sees what becomes of each case, and counts."""

import os
import shutil
import signal
import tempfile
import time

from libraries import Start
from processes import Job, Patience

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
START_LIMIT_S = 60
STACKS_S = 2
# So many failures of a group are enough to know.
MAX_FAILURES = 4
LINES_SHOWN = 30


class Report:
    """Prints a line per case, and counts."""

    def __init__(self):
        self.results = {"passed": [], "failed": [], "skipped": []}
        self.left_out = []

    def add(self, outcome, name, seconds, reason=""):
        self.results[outcome].append((name, reason))
        print(f"{outcome:8}{name}  ({seconds:.1f} s){': ' + reason if reason else ''}", flush=True)

    def show(self, text):
        for line in text.splitlines():
            print(f"          {line}", flush=True)

    def note(self, text):
        print(f"        {text}", flush=True)

    def summary(self):
        for outcome in ("failed", "skipped"):
            for name, reason in self.results[outcome]:
                print(f"{outcome}: {name}: {reason}")
        if self.left_out:
            print(f"left out: {len(self.left_out)} cases, which --all runs: {' '.join(self.left_out)}")
        print(", ".join(f"{len(self.results[outcome])} {outcome}" for outcome in self.results))

    @property
    def failed(self):
        return len(self.results["failed"])


def case_name(library, group, case):
    module, plain = case.split("/")
    return f"{library.name}/{group.name}/{plain if module == group.name else case}"


class Scratch:
    """A directory for what a job leaves: Weft's boards, and files of the cases."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="weft-mpi-")
        self.boards = os.path.join(self.path, "boards")
        os.mkdir(self.boards, 0o700)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Runner:
    def __init__(self, provider, report, verbose):
        self.provider, self.report, self.verbose = provider, report, verbose

    def start(self, library, start, program, scratch, threads="single", hosts=None, directory=None, more=()):
        """Starts a job: `program` is what follows the launcher's arguments."""
        environment = {
            **library.environment(self.provider),
            "WEFT_BOARDS": scratch.boards,
            "SUITE_SCRATCH": scratch.path,
            "SUITE_THREADS": threads,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SUITE_PROOF": "1" if self.provider.is_weft else "",
            **(hosts.environment if hosts else {}),
            **dict(more),
        }
        launcher = hosts.command if hosts else []
        command = [*launcher, *library.command(self.provider, start), library.python, *program]
        return Job(command, environment, directory)

    def run_group(self, library, group, cases, hosts=None):
        """Runs cases in one job, and what is behind one that fails in another."""
        run = GroupRun(self, library, group, hosts)
        left = list(cases)
        while left and run.failures < MAX_FAILURES:
            left = run.job(left)
        for case in left:
            run.tell("failed", case, 0, f"not tried after {run.failures} failures")


class GroupRun:
    def __init__(self, runner, library, group, hosts):
        self.runner, self.library, self.group, self.hosts = runner, library, group, hosts
        self.report = runner.report
        self.failures = 0

    def tell(self, outcome, case, seconds, reason=""):
        if outcome == "failed":
            self.failures += 1
        self.report.add(outcome, case_name(self.library, self.group, case), seconds, reason)

    def job(self, cases):
        """Runs cases until one fails; returns those behind it."""
        group, scratch = self.group, Scratch()
        start = Start(group.ranks, self.hosts.addresses if self.hosts else (), group.one_sided)
        program = [os.path.join(PROGRAMS, "suite.py"), *cases]
        job = self.runner.start(self.library, start, program, scratch, group.threads, self.hosts, more=group.environment)
        try:
            return self.follow(job, list(cases))
        finally:
            job.end()
            scratch.remove()

    def follow(self, job, cases):
        outcome = Follower(job, self.group).run(lambda case, seconds: self.tell("passed", case, seconds))
        done = [case for case in cases if case in outcome.passed]
        left = cases[len(done):]
        reason = outcome.reason or self.check_end(job, outcome)
        if self.runner.verbose or reason:
            self.report.note(job.shown())
        if reason:
            self.tell("failed", left[0] if left else f"{self.group.name}/end", outcome.seconds, reason)
            self.report.show("\n".join(job.text().splitlines()[-LINES_SHOWN:]))
            # A job that did not even begin would not do so with other cases.
            if left and not outcome.begun:
                for case in left[1:]:
                    self.tell("failed", case, 0, "the job did not begin")
                return []
        else:
            self.tell("passed", f"{self.group.name}/end", outcome.seconds, outcome.proof)
        return left[1:]

    def check_end(self, job, outcome):
        """What is wrong about the end of a job whose cases have passed."""
        if outcome.code != 0:
            return f"all cases have passed, but the job ended with exit code {outcome.code}"
        left = job.left_over()
        if left:
            return f"the job has ended, but there still run: {', '.join(left)}"
        if self.runner.provider.is_weft:
            missing = set(range(self.group.ranks)) - outcome.proved
            if missing:
                return f"no counters prove that bytes of these ranks went through Weft: {', '.join(map(str, sorted(missing)))}"
        return ""


class Follower:
    """Reads what the ranks tell while they run."""

    def __init__(self, job, group):
        self.job, self.limit_s, self.ranks = job, group.limit_s, group.ranks
        self.passed, self.begun, self.reason, self.code = {}, None, "", None
        self.proofs, self.proved, self.failure = [], set(), ""
        self.seconds, self.read = 0, 0

    @property
    def proof(self):
        """The traffic of all ranks: what they have sent, and what Weft has counted of it."""
        sums = {}
        for kind, wanted, counted in self.proofs:
            before = sums.get(kind, (0, 0))
            sums[kind] = before[0] + wanted, before[1] + counted
        return "; ".join(f"{kind}: {wanted} bytes sent, Weft {counted}" for kind, (wanted, counted) in sums.items())

    def run(self, on_passed):
        began = last = time.monotonic()
        patience = Patience(self.ranks)
        while self.code is None and not self.reason:
            self.code = self.job.wait(0.02)
            for line in self.new_lines():
                last = time.monotonic()
                patience.renew()
                self.take(line, on_passed)
            limit_s = self.limit_s if self.begun else START_LIMIT_S
            if self.code is None and patience.seconds() > limit_s:
                self.reason = f"hangs: nothing happened for {limit_s} s" if self.begun else f"did not begin in {limit_s} s"
                show_stacks(self.job)
        if self.code is not None and not self.reason and (self.failure or self.code != 0 and self.begun not in self.passed):
            self.reason = self.failure or f"ended with exit code {self.code}"
        self.seconds = time.monotonic() - (last if self.reason else began)
        return self

    def new_lines(self):
        text = self.job.text()
        end = text.rfind("\n") + 1
        lines, self.read = text[self.read:end].splitlines(), max(end, self.read)
        return [line[line.index("@") + 1:] for line in lines if line.lstrip().startswith("@")]

    def take(self, line, on_passed):
        word, _, rest = line.partition(" ")
        if word == "begin":
            self.begun = rest
        elif word == "passed":
            case, seconds = rest.rsplit(" ", 1)
            self.passed[case] = float(seconds)
            on_passed(case, float(seconds))
        elif word == "failed":
            self.failure = self.failure or rest.split(": ", 1)[1]
        elif word == "proof":
            self.take_proof(rest)

    def take_proof(self, text):
        kind, numbers = text.split(": ", 1)
        numbers = [int(word) for word in numbers.replace(",", " ").replace(";", " ").split() if word.isdigit()]
        rank, wanted, counted = numbers[:3]
        self.proofs.append((kind, wanted, counted))
        self.proved.add(rank)


def show_stacks(job):
    """Has the ranks write where they are."""
    for pid in job.started():
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
                os.kill(pid, signal.SIGUSR1)
        except OSError:
            pass
    time.sleep(STACKS_S)
