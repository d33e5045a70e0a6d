"""Ranks on different hosts: a lab of `weft lab`."""

import os
import random
import subprocess
import threading
import time

from processes import Job

LIMIT_S = 30
# How long a link is cut, and whole, at most.
CUT_S = 0.25
WAYS = ("silent", "carrier", "send", "receive")


class LabError(Exception):
    """There is no lab; the text says why."""


class Lab:
    """Hosts whose ranks are started as if by ssh (`agent`)."""

    def __init__(self, weft, hosts, links=1, cuts=False, filter=None):
        self.weft, self.name, self.links = weft, f"mpi{os.getpid()}-{hosts}", links
        self.over, self.cutter = threading.Event(), None
        self.cuts = 0
        self.filter, self.dropped = filter, 0
        self.addresses = tuple(map(address, range(hosts)))
        self.processes = []
        self.call("lab", "up", "--name", self.name, "--hosts", str(hosts), "--links", str(links), "--rate", "none")
        try:
            self.processes = [Job([*self.enter(host), *named(host), "sleep", "infinity"], {}) for host in range(hosts)]
            self.await_entry()
            if filter:
                for host in range(hosts):
                    self.call(*self.inside(host, "nft", filter.rules))
            if cuts:
                self.cutter = threading.Thread(target=self.cut_and_mend, args=(hosts,))
                self.cutter.start()
        except BaseException:
            self.close()
            raise

    def cut_and_mend(self, hosts):
        """One link after the other fails, in one way or another, and is mended again. The launcher's own connections are
        on the first one: that is cut for short times only."""
        chance = random.Random(1)
        while not self.over.wait(chance.random() * CUT_S):
            rail, way = chance.randrange(self.links), chance.choice(WAYS)
            link = f"{chance.randrange(hosts)}:rail{rail}" if way in ("send", "receive") or hosts > 2 else f"rail{rail}"
            try:
                self.call("lab", "cut", link, "--way", way, "--name", self.name)
                self.over.wait(chance.random() * CUT_S)
                self.cuts += 1
            except LabError as error:
                # A case that kills what is left of a job takes this command with it.
                print(f"a link was not cut: {error}")
            self.mend(link)

    def mend(self, link):
        for _ in range(3):
            try:
                return self.call("lab", "mend", link, "--name", self.name)
            except LabError as error:
                print(f"a link was not mended: {error}")
        raise LabError(f"{link} cannot be mended")

    def inside(self, host, *command):
        return ["lab", "exec", "--name", self.name, str(host), "--", *command]

    def enter(self, host):
        return [self.weft, *self.inside(host)]

    @property
    def command(self):
        """What a launcher is started behind, to be in the first host."""
        return [*self.enter(0), *named(0)]

    @property
    def environment(self):
        processes = ",".join(str(job.process.pid) for job in self.processes)
        # libfabric's tcp may try the loopback device, where the other hosts are not.
        return {"HOST_PROCESSES": processes}

    def await_entry(self):
        """A host is ready when a process has entered it and the kernel has noticed that its link is up."""
        deadline = time.monotonic() + LIMIT_S
        for host, job in enumerate(self.processes):
            while network(job.process.pid) in (None, network("self")) or not self.is_up(host):
                if job.process.poll() is not None or time.monotonic() > deadline:
                    raise LabError(f"no process could be started in a host, or its link is down: {job.text()}")
                time.sleep(0.01)

    def is_up(self, host):
        return " state UP " in self.call(*self.inside(host, "ip", "link", "show", "rail0"))

    def call(self, *arguments):
        try:
            ended = subprocess.run([self.weft, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, check=False, timeout=LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"{self.weft} {' '.join(arguments)}: {error}") from error
        if ended.returncode != 0:
            raise LabError(f"weft {' '.join(arguments)}: {ended.stdout.strip()}")
        return ended.stdout

    def count_dropped(self):
        hosts = range(len(self.processes)) if self.filter else ()
        return sum(self.filter.dropped(self.call(*self.inside(host, *self.filter.counting))) for host in hosts)

    def close(self):
        """What still runs in it dies with it."""
        self.over.set()
        if self.cutter:
            self.cutter.join()
            print(f"links were cut {self.cuts} times in lab {self.name}")
        try:
            self.dropped = self.count_dropped()
        except LabError as error:
            print(f"what was dropped is not known: {error}")
        self.call("lab", "down", "--name", self.name)
        for job in self.processes:
            job.process.wait(LIMIT_S)


def named(host):
    """What a command is started behind to have a host name of its own: libraries take hosts of one name for one. It is an address, for there is
    nobody who would resolve another."""
    return ["unshare", "--uts", "--", "sh", "-c", f'hostname {address(host)} && exec "$@"', "sh"]


def address(host):
    return f"10.0.0.{host + 1}"


def network(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None
