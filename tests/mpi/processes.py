"""Starts programs, and ends them with everything that they have started."""

import ctypes
import os
import signal
import subprocess
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LEFT_OVER_S = 10
LOADAVG = "/proc/loadavg"


def adopt_orphans():
    """Makes this process the parent of whatever loses its own among what it has started, so that nothing is out of sight."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)


class Patience:
    """How long has nothing happened, in seconds of a machine that is the job's alone?

    While others want the processors too, a second counts for the share of it that one of the job's processes gets. What
    the job itself keeps running, so many processes at most, counts in full: limits are made for that.
    """

    def __init__(self, processes):
        self.processes, self.processors = processes, os.cpu_count() or 1
        self.renew()

    def renew(self):
        """Something has happened."""
        self.looked, self.waited = time.monotonic(), 0.0

    def seconds(self):
        now = time.monotonic()
        self.waited += (now - self.looked) * self.share()
        self.looked = now
        return self.waited

    def share(self):
        try:
            with open(LOADAVG, encoding="ascii") as file:
                running = int(file.read().split()[3].partition("/")[0])
        except (OSError, IndexError, ValueError):
            return 1.0
        # This one, which looks, runs too.
        others = max(0, running - 1 - self.processes)
        return min(1.0, self.processors / (others + 1))


class Job:
    """A program in a session of its own, with its output in a file."""

    def __init__(self, command, environment, directory=None):
        self.command, self.environment = command, environment
        self.output = tempfile.TemporaryFile()
        self.others = set(descendants())
        parent = os.getpid()

        def die_with_parent():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        self.process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
                                        env={**os.environ, **environment}, start_new_session=True, preexec_fn=die_with_parent)

    def text(self):
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def wait(self, timeout_s):
        """The exit code; None if it still runs then."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def finish(self, limit_s, processes=2):
        """The same, but a second counts as `Patience` has it: for programs of so many processes."""
        patience = Patience(processes)
        while (code := self.wait(0.1)) is None and patience.seconds() < limit_s:
            pass
        return code

    def left_over(self):
        """What the job has started and still runs some time after its end."""
        deadline = time.monotonic() + LEFT_OVER_S
        while (left := self.started()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [f"{pid} {name(pid)}" for pid in left]

    def started(self):
        reap()
        return [pid for pid in descendants() if pid not in self.others and pid != self.process.pid]

    def end(self):
        """Kills all of it."""
        for _ in range(100):
            if self.process.poll() is None:
                self.process.kill()
            left = self.started()
            for pid in left:
                kill(pid)
            if not left and self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.output.close()

    def shown(self):
        """The command as one would type it."""
        words = [f"{name}={value}" for name, value in self.environment.items()] + list(self.command)
        return " ".join(word if word.replace("_", "").isalnum() or not set(word) & set(" ;$&|'\"()<>*") else f"'{word}'" for word in words)


def descendants():
    """The processes below this one."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    words = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if words[0] != "Z":
                children.setdefault(int(words[1]), []).append(int(entry))
    found, open_ones = [], [os.getpid()]
    while open_ones:
        below = children.get(open_ones.pop(), [])
        found += below
        open_ones += below
    return found


def reap():
    """Takes note of the end of adopted orphans. Those that Popen has started are Popen's."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and is_orphan(int(entry)):
            try:
                os.waitpid(int(entry), os.WNOHANG)
            except ChildProcessError:
                pass


def is_orphan(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state, parent, _, session = file.read().rsplit(")", 1)[1].split()[:4]
    except OSError:
        return False
    return state == "Z" and int(parent) == os.getpid() and int(session) != pid


def name(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().replace("\0", " ").strip()[:80]
    except OSError:
        return "?"


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
