"""Where cases run, how they are started, and how what they say is judged."""

import copy
import fnmatch
import os
import subprocess
import tempfile
import time

from processes import Job

HERE = os.path.dirname(os.path.abspath(__file__))
# How long a case may take on a machine that is its own.
LIMIT_S = 60


class Place:
    """Where the two ends of a case run."""

    def __init__(self, name, weft, server, client, address, devices, more=None):
        self.name, self.weft, self.server, self.client, self.address = name, weft, server, client, address
        self.environment = {"WEFT_VERBS_DEVICES": devices, **(more or {})}

    def over(self, carrier, name=None):
        """The same place, with another carrier of connections."""
        place = copy.copy(self)
        place.name = name or f"{self.name}/{carrier}"
        place.environment = {**self.environment, "WEFT_VERBS_CARRIER": carrier}
        return place

    def command(self, end, words):
        return [*end, self.weft, "run", "--", *words]

    def listens(self, port):
        """Whether the server waits at its TCP port. (To connect would be taken for the client.)"""
        shown = subprocess.run([*self.server, "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, check=False).stdout
        ends = (line.split()[1:4] for line in shown.splitlines() if line.split()[0].endswith(":"))
        return any(local.endswith(f":{port:04X}") and state == "0A" for local, _, state in ends)


class Session:
    def __init__(self, arguments, report):
        self.arguments, self.report, self.port = arguments, report, 19000

    def wanted(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.arguments.case)

    def run_alone(self, place, name, words, wanted, code=0, limit=LIMIT_S, unwanted=()):
        """A program that needs no peer."""
        name = f"{place.name}/{name}"
        if not self.wanted(name):
            return
        began = time.monotonic()
        job = Job(place.command(place.client, words), place.environment)
        ended = job.finish(limit, 1)
        self.judge(name, began, [(job, ended)], wanted, unwanted, code)

    def run_pair(self, place, case):
        name = f"{place.name}/{case.name}"
        if not self.wanted(name):
            return
        self.port += 1
        words = [*case.command, "-p", str(self.port)]
        began = time.monotonic()
        server = Job(place.command(place.server, words), place.environment)
        while not place.listens(self.port) and server.wait(0.05) is None and time.monotonic() - began < LIMIT_S:
            pass
        client = Job(place.command(place.client, [*words, place.address]), place.environment)
        jobs = [(client, client.finish(LIMIT_S)), (server, server.finish(LIMIT_S / 4))]
        self.judge(name, began, jobs, case.wanted, case.unwanted)

    def run_pairs(self, place, cases):
        for case in cases:
            self.run_pair(place, case)

    def judge(self, name, began, jobs, wanted, unwanted, code=0):
        texts = [job.text() for job, _ in jobs]
        for job, ended in jobs:
            if ended is None:
                job.process.kill()
                job.process.wait()
        reason = ""
        if any(ended is None for _, ended in jobs):
            reason = "it did not end in time"
        elif any((ended == 0) != (code == 0) for _, ended in jobs):
            reason = f"it ended with {', '.join(str(ended) for _, ended in jobs)}"
        else:
            # Some servers do not say what was measured.
            missing = [word for word in wanted if word not in texts[0]]
            surplus = [word for word in unwanted if any(word in text for text in texts)]
            if missing or surplus:
                reason = f"in what it says {missing or 'nothing'} is missing, {surplus or 'nothing'} is too much"
        self.report.add("failed" if reason else "passed", name, time.monotonic() - began, reason)
        if reason or self.arguments.verbose:
            for (job, _), text in zip(jobs, texts):
                self.report.show(f"$ {' '.join(job.command)}\n{text}")

    def build(self, name, output, arguments):
        """Compiles something of ours. A case of this name fails if that does not work."""
        command = ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", output, *arguments]
        built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if built.returncode != 0:
            self.report.add("failed", name, 0, built.stdout)
        return built.returncode == 0

    def run_built(self, place, name, source, words, wanted, limit=LIMIT_S):
        """Compiles a program of ours, and runs it alone."""
        if not self.wanted(f"{place.name}/{name}"):
            return
        with tempfile.TemporaryDirectory(prefix="weft-built-") as folder:
            program = os.path.join(folder, name)
            if self.build(f"{place.name}/{name}", program, [os.path.join(HERE, source), "-libverbs", "-lpthread"]):
                self.run_alone(place, name, [program, *words], wanted, limit=limit)
