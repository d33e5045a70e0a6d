"""The MPI libraries: where they are, and how each is told which libfabric provider to use, and on which hosts to start."""

import glob
import os
import subprocess
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
# Variables that the suite sets for every job.
FORWARDED = ("WEFT_BOARDS", "SUITE_PROOF", "SUITE_SCRATCH", "SUITE_THREADS", "PYTHONDONTWRITEBYTECODE")
AGENT = os.path.join(HERE, "agent")


@dataclass(frozen=True)
class Provider:
    """A libfabric provider; the directory is where libfabric shall look for it, None for its own."""
    name: str
    directory: str = None

    @property
    def environment(self):
        path = {"FI_PROVIDER_PATH": self.directory} if self.directory else {}
        return {"FI_PROVIDER": self.name, **path}

    @property
    def is_weft(self):
        return self.name == "weft"


@dataclass(frozen=True)
class Start:
    """How a job is to be started."""
    ranks: int
    # Addresses of hosts, or none: all on this one.
    hosts: tuple = ()
    # Whether one-sided communication takes part.
    one_sided: bool = False


class Library:
    name = title = ""

    def __init__(self, directory):
        self.directory = directory

    def program(self, name):
        return os.path.join(self.directory, "bin", name)

    @property
    def python(self):
        return self.program("python")

    @property
    def compiler(self):
        """For programs in C; None if there is none."""
        return self.program("mpicc") if os.path.exists(self.program("mpicc")) else None

    @property
    def compiled(self):
        """What is to be set for programs that it has made."""
        return {"LD_LIBRARY_PATH": os.path.join(self.directory, "lib")}

    def environment(self, provider):
        """What is to be set for the job."""
        return provider.environment

    def command(self, provider, start):
        """The launcher with its arguments; those of the ranks' program follow."""
        raise NotImplementedError


class Hydra(Library):
    """Those whose launcher is Hydra. It gives its environment to all ranks."""

    def command(self, provider, start):
        command = [self.program("mpiexec")]
        if start.hosts:
            command += ["-launcher", "ssh", "-launcher-exec", AGENT, "-hosts", ",".join(start.hosts), "-ppn", str(start.ranks // len(start.hosts))]
        return command + ["-n", str(start.ranks)]


class Mpich(Hydra):
    name, title = "mpich", "MPICH 5"

    def environment(self, provider):
        # Without the second, ranks of one host would use MPICH's own shared memory.
        return {**provider.environment, "MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"}


class Intel(Hydra):
    name, title = "intel", "Intel MPI"

    def environment(self, provider):
        return {**provider.environment, "I_MPI_FABRICS": "ofi", "I_MPI_OFI_PROVIDER": provider.name}


    @property
    def compiler(self):
        """That of MPICH, whose binary interface it has."""
        mpich = os.path.join(os.path.dirname(self.directory), "mpich", "bin", "mpicc")
        return mpich if os.path.exists(mpich) else None


class OpenMpi(Library):
    name, title = "openmpi", "Open MPI 5"
    agent_option = ("--prtemca", "plm_ssh_agent", AGENT)

    def environment(self, provider):
        return {**provider.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def command(self, provider, start):
        command = [self.mpiexec, "-n", str(start.ranks), "--oversubscribe", "--bind-to", "none"]
        if start.hosts:
            slots = start.ranks // len(start.hosts)
            command += ["--host", ",".join(f"{host}:{slots}" for host in start.hosts), *self.agent_option]
            # Other hosts get of the environment what is named here.
            for name in (*self.environment(provider), *FORWARDED):
                command += ["-x", name]
        # It does not see that several hosts of a lab share the processors.
        command += ["--mca", "mpi_yield_when_idle", "1"]
        command += ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", provider.name]
        return command + (self.one_sided(provider) if start.one_sided else [])

    @property
    def mpiexec(self):
        return self.program("mpiexec")

    def one_sided(self, provider):
        """Its one-sided communication has a way of its own to the network."""
        if not provider.is_weft:
            return []
        return ["--mca", "osc", "rdma", "--mca", "btl", "ofi,self"]


class Debian(OpenMpi):
    """One-sided communication goes over messages there (its component pt2pt)."""
    name, title = "debian", "Open MPI of Debian"
    agent_option = ("--mca", "plm_rsh_agent", AGENT)
    mpiexec = "/usr/bin/mpiexec.openmpi"

    compiled = {}

    @property
    def compiler(self):
        """Its package has the compiler without headers; another one brings them."""
        return "/usr/bin/mpicc.openmpi" if glob.glob("/usr/lib/*/openmpi/include/mpi.h") else None

    def environment(self, provider):
        return {**super().environment(provider), "MPI4PY_MPIABI": "openmpi", "MPI4PY_LIBMPI": "libmpi.so.40"}

    def one_sided(self, provider):
        return ["--mca", "osc", "pt2pt"]


KINDS = {kind.name: kind for kind in (Mpich, OpenMpi, Intel, Debian)}


def get(names):
    """Those of the libraries that can be had here, and the reasons why others can't: ({name: library}, {name: reason})."""
    made = subprocess.run([os.path.join(HERE, "setup"), *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    libraries = dict(line.split(" ", 1) for line in made.stdout.splitlines())
    reasons = {}
    for line in made.stderr.splitlines():
        if line.startswith("skipped: "):
            name, reason = line[len("skipped: "):].split(": ", 1)
            reasons[name] = reason
        else:
            print(line, file=sys.stderr, flush=True)
    for name in names:
        if name not in libraries:
            reasons.setdefault(name, "tests/mpi/setup failed")
    return {name: KINDS[name](directory) for name, directory in libraries.items()}, reasons
