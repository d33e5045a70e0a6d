"""The virtual machine: boots it, runs commands in it, ends it."""

import base64
import ctypes
import itertools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Addresses of QEMU's user network: the guest, and the host's loopback as the guest sees it.
GUEST = "10.0.2.15"
HOST = "10.0.2.2"

# Guest ports that are reachable from the host: rping, rdma_server, perftest, and some for whoever needs one.
RPING_PORT = 7174
RDMA_SERVER_PORT = 7471
FORWARDED_PORTS = [RPING_PORT, RDMA_SERVER_PORT, 18515, 18516, 20000, 20001, 20002, 20003]

BOOT_TIMEOUT_S = 120
PR_SET_PDEATHSIG = 1

# Loaded before any thread exists: a child between fork and exec must not load libraries.
LIBC = ctypes.CDLL(None, use_errno=True)


class VmError(Exception):
    """The VM does not do what it should; the text says what was tried."""


class Job:
    """A command that runs in the guest."""

    def __init__(self, vm, number, command):
        self.vm, self.number, self.command = vm, number, command
        self.ended = threading.Event()
        self.seen = threading.Event()
        self.code = None
        self.output = b""

    def wait(self, timeout_s):
        """Returns the exit code, or raises when the time is up (the command is then killed)."""
        if not self.ended.wait(timeout_s):
            output = self.peek()
            self.kill()
            raise VmError(f"`{self.command}` in the guest still runs after {timeout_s} s; output: {tail(output)}")
        if self.code is None:
            raise VmError(f"the VM ended while `{self.command}` ran")
        return self.code

    def text(self):
        """Standard output and standard error of the ended job."""
        return self.output.decode(errors="replace")

    def peek(self):
        """What the job has written so far."""
        if self.ended.is_set():
            return self.text()
        self.seen.clear()
        self.vm.send(f"peek {self.number}")
        if not self.seen.wait(10) and not self.ended.is_set():
            raise VmError("the guest's agent does not answer")
        return self.text()

    def kill(self, name="KILL"):
        """Sends a signal to every process of the job."""
        self.vm.send(f"kill {self.number} {name}")


class Vm:
    """One booted machine. `close` must be called; it is also the end of the `with` block."""

    def __init__(self, directory):
        self.directory = directory
        self.numbers = itertools.count(1)
        self.jobs = {}
        self.lock = threading.Lock()
        self.ready = threading.Event()
        self.loaded = None
        self.scratch = tempfile.mkdtemp(prefix="weft-siw-")
        self.console_path = os.path.join(self.scratch, "console")
        self.process = None
        started = time.monotonic()
        try:
            self._start()
            self._await_boot()
        except BaseException:
            self.close()
            raise
        self.boot_s = time.monotonic() - started

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, command, timeout_s=30):
        """Runs a shell command in the guest; returns (exit code, output)."""
        job = self.start(command)
        return job.wait(timeout_s), job.text()

    def check(self, command, timeout_s=30):
        """As `run`, but an exit code other than 0 is an error. Returns the output."""
        code, output = self.run(command, timeout_s)
        if code != 0:
            raise VmError(f"`{command}` in the guest ended with {code}: {tail(output)}")
        return output

    def start(self, command):
        """Starts a shell command in the guest."""
        job = Job(self, next(self.numbers), command)
        with self.lock:
            self.jobs[job.number] = job
        encoded = base64.b64encode((command + "\n").encode()).decode()
        self.send(f"run {job.number} {encoded}")
        return job

    def load_siw(self, **switches):
        """Gives the guest a device `siw0`. Without switches it is siw as it is shipped."""
        module = "siw-tunable" if switches else "siw"
        wanted = (module, tuple(sorted(switches.items())))
        if self.loaded == wanted:
            return
        if self.loaded is not None:
            self.check("rdma link delete siw0 && for i in 1 2 3 4 5 6 7 8 9 10; do rmmod siw && exit 0; sleep 1; done; exit 1",
                       20)
            self.loaded = None
        parameters = " ".join(f"{name}={int(value)}" for name, value in switches.items())
        self.check(f"insmod /modules/{module}.ko {parameters} && rdma link add siw0 type siw netdev eth0")
        self.loaded = wanted

    def await_listener(self, port, timeout_s=20):
        """Waits until something in the guest listens on a TCP port."""
        pattern = shlex.quote(f"^ *[0-9]*: [0-9A-F]*:{port:04X} [0-9A-F:]* 0A")
        tries = timeout_s * 5
        loop = f"for i in $(seq {tries}); do cat /proc/net/tcp* | grep -q {pattern} && exit 0; sleep 0.2; done; exit 1"
        code, _ = self.run(loop, timeout_s + 20)
        if code != 0:
            raise VmError(f"nothing in the guest listens on port {port} after {timeout_s} s")

    def forwarded(self, guest_port):
        """The port of 127.0.0.1 behind which the guest's port is."""
        return self.ports[guest_port]

    def kernel_log(self):
        return self.check("dmesg")

    def console(self):
        with open(self.console_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def close(self):
        """Ends the machine. Never raises for a machine that is gone already."""
        if self.is_alive():
            try:
                self.send("poweroff")
                self.process.wait(5)
            except (VmError, OSError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait(10)
        self.channel.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def send(self, line):
        """Writes one request to the agent."""
        try:
            with self.lock:
                self.channel.sendall(line.encode() + b"\n")
        except OSError as error:
            raise VmError(f"the VM is gone: {error}") from error

    def _start(self):
        self.channel, theirs = socket.socketpair()
        self.ports = free_ports(FORWARDED_PORTS)
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for guest, host in self.ports.items())
        parent = os.getpid()

        def die_with_parent():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        command = [
            "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-cpu", "max", "-m", "512", "-smp", "1",
            "-nodefaults", "-display", "none", "-no-reboot", "-no-user-config",
            "-kernel", os.path.join(self.directory, "vmlinuz"),
            "-initrd", os.path.join(self.directory, "initramfs.gz"),
            "-append", "console=ttyS0 quiet panic=-1 oops=panic random.trust_cpu=on mitigations=off",
            "-serial", f"file:{self.console_path}",
            "-nic", f"user,model=virtio-net-pci{forwards}",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=weft,fd={theirs.fileno()}",
            "-device", "virtserialport,chardev=weft,name=weft",
        ]
        # A session of its own, so that Ctrl-C reaches the runner alone, which then ends the machine in order.
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()], start_new_session=True, preexec_fn=die_with_parent)
        theirs.close()
        threading.Thread(target=self._read_replies, daemon=True).start()

    def _await_boot(self):
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while not self.ready.wait(0.2):
            if not self.is_alive():
                errors = self.process.stderr.read().decode(errors="replace")
                raise VmError(f"QEMU ended with {self.process.returncode}: {tail(errors)}\n{tail(self.console())}")
            if time.monotonic() > deadline:
                raise VmError(f"the guest has not booted in {BOOT_TIMEOUT_S} s; its console: {tail(self.console())}")

    def _read_replies(self):
        pending = b""
        while True:
            try:
                data = self.channel.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._take_reply(line.decode(errors="replace").split(" "))
        with self.lock:
            for job in self.jobs.values():
                job.ended.set()

    def _take_reply(self, words):
        if words[0] == "hello":
            self.ready.set()
            return
        with self.lock:
            job = self.jobs.get(int(words[1])) if len(words) > 1 and words[1].isdigit() else None
        if job is None:
            return
        if words[0] == "end":
            job.output = base64.b64decode(words[3])
            job.code = int(words[2])
            with self.lock:
                del self.jobs[job.number]
            job.ended.set()
        elif words[0] == "seen" and not job.ended.is_set():
            job.output = base64.b64decode(words[2])
            job.seen.set()


def interact(vm):
    """Runs a shell of the user's in the guest: each line is one command, its output follows."""
    print("Each line is run in the guest; an empty line or Ctrl-D ends it. siw0 is there. Forwarded ports:")
    print("  " + ", ".join(f"127.0.0.1:{host} -> guest:{guest}" for guest, host in vm.ports.items()))
    while True:
        try:
            line = input("guest# ")
        except EOFError:
            break
        if not line:
            break
        job = vm.start(line)
        shown = 0
        try:
            while not job.ended.wait(0.3):
                text = job.peek()
                sys.stdout.write(text[shown:])
                sys.stdout.flush()
                shown = len(text)
        except KeyboardInterrupt:
            job.kill("INT")
            job.ended.wait(3) or job.kill()
            job.ended.wait(3)
        sys.stdout.write(job.text()[shown:])
        print(f"[{job.code}]" if job.code else "", end="\n" if job.code else "")


def free_ports(guest_ports):
    """Guest port -> a free port of 127.0.0.1."""
    sockets = []
    for _ in guest_ports:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sockets.append(sock)
    ports = {guest: sock.getsockname()[1] for guest, sock in zip(guest_ports, sockets)}
    for sock in sockets:
        sock.close()
    return ports


def tail(text, limit=1500):
    text = text.strip()
    return text if len(text) <= limit else "..." + text[-limit:]
