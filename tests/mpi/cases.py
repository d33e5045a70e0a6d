"""What is run with each library."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Group:
    """Cases of `programs/suite.py` that run in one job."""
    name: str
    ranks: int
    cases: tuple
    # Those that are left out unless everything is asked for.
    more: tuple = ()
    # So long a case may take until it counts as hanging.
    limit_s: float = 30
    one_sided: bool = False
    threads: str = "single"
    # Ranks are divided among so many hosts of a lab; 0: all on this machine.
    hosts: int = 0
    memory_gib: float = 0
    # Jobs of it, one after the other; unless everything is asked for only the first number.
    rounds: tuple = (1, 1)
    # Only with these libraries; empty: with all.
    libraries: tuple = ()
    # Libraries that have it only when everything is asked for.
    seldom: tuple = ()
    # Libraries that divide their ranks among so many hosts, where the others have one.
    hosts_of: tuple = ()
    # Variables of the library's own, with their values.
    environment: tuple = ()

    def chosen(self, library, everything):
        """The cases to be run with a library, and those that are left out for the time."""
        if self.libraries and library not in self.libraries:
            return [], []
        if everything:
            return [*self.cases, *self.more], []
        if library in self.seldom:
            return [], [*self.cases, *self.more]
        return list(self.cases), list(self.more)

    def for_library(self, library):
        """The group as this library has it."""
        return replace(self, hosts=dict(self.hosts_of).get(library, self.hosts))


MESSAGES = ("blocking", "nonblocking", "waiting", "wildcards", "order", "probe", "matched-probe", "modes", "persistent", "unexpected", "posted",
            "truncated", "cancelled", "exchange", "datatypes", "to-itself", "communicators")
COLLECTIVES = ("barrier", "bcast", "reduce", "gather", "alltoall", "scan", "nonblocking", "objects")
WINDOWS = ("fence", "many-puts", "accumulate", "get-accumulate", "fetch-and-op", "compare-and-swap", "post-start", "lock", "flush", "memory-kinds",
           "datatypes")
THREADS = ("ping-pong", "wildcards", "communicators", "mixed")


def names(module, cases):
    return tuple(f"{module}/{case}" for case in cases)


UNEXPECTED = "tcp stops reading when some hundred messages are unexpected, those of the barrier behind them too"

GROUPS = (
    Group("messages", 3, names("messages", MESSAGES), more=("messages/flood", "messages/backwards")),
    # Other libraries than MPICH wait for some of the first sends before they begin the others.
    Group("overtaking", 2, ("messages/overtaking",), limit_s=120, libraries=("mpich",)),
    # MPICH asks to be told that a receive has matched, and only then sends the parts.
    Group("pipeline", 2, names("messages", ("blocking", "nonblocking", "unexpected", "posted")), libraries=("mpich",),
          environment=(("MPIR_CVAR_CH4_OFI_RNDV_PROTOCOL", "pipeline"),)),
    Group("collectives", 4, names("collectives", COLLECTIVES)),
    # Open MPI 5 copies between ranks of one host, and asks no provider.
    Group("windows", 3, names("windows", WINDOWS), one_sided=True, hosts_of=(("openmpi", 3),)),
    Group("threads", 2, names("threads", THREADS), threads="multiple"),
    Group("many", 16, ("many/all-pairs", "many/alltoall", "many/to-one"), more=("collectives/reduce", "messages/communicators"), limit_s=60),
    Group("many-windows", 16, ("many/window",), limit_s=60, one_sided=True, seldom=("openmpi", "debian", "intel"), hosts_of=(("openmpi", 4),)),
    Group("hosts", 2, ("messages/blocking", "messages/nonblocking", "messages/order", "collectives/reduce", "windows/fence", "windows/fetch-and-op"),
          more=("messages/unexpected", "messages/exchange", "windows/accumulate", "windows/lock"), one_sided=True, hosts=2),
    Group("many-hosts", 8, ("many/all-pairs", "many/alltoall"), hosts=4, seldom=("openmpi", "debian", "intel")),
    Group("silent-target", 2, ("windows/silent-target",), one_sided=True, libraries=("mpich",)),
    Group("large", 2, ("messages/large",), limit_s=120, memory_gib=6, seldom=("openmpi", "debian", "intel")),
    Group("many32", 32, (), more=("many/all-pairs", "many/alltoall"), limit_s=120, libraries=("mpich",)),
    Group("many64", 64, ("many/alltoall",), limit_s=120, rounds=(1, 10), libraries=("mpich",)),
)

# What is left out unless --all is given, beside what the groups leave out: patterns of names.
#
# The library to preload is the same code for each MPI library. All of it is tried with MPICH, nearly all with Open MPI
# 5; with the other two only that its symbols take the place of theirs. Old windows wait for seconds: eight ranks with
# MPICH show what four do; Open MPI starts four sooner.
LEFT_OUT = (
    "mpich/served/old", "openmpi/served/old8", "intel/served/old*", "debian/served/old*",
    *(f"{library}/preloaded/{what}" for library in ("openmpi", "intel", "debian") for what in ("outside", "nobody")),
    *(f"{library}/preloaded/five" for library in ("intel", "debian")),
    *(f"{library}/served/{what}" for library in ("intel", "debian") for what in ("wide", "mpi4py-off", "silent")),
)
# And what is left out over a carrier, by FI_WEFT_TRANSPORT; the others are the usual one. 2 GiB in one message are for
# iWARP, whose read requests have 32 bits for a length. Windows depend on the carrier, with MPICH as with others; errors
# of a program, symbols and mpi4py do not.
LARGE = ("*/large/*",)
NOT_OF_THE_CARRIER = (
    "*/preloaded/outside", "*/preloaded/nobody", "*/preloaded/tcp", "*/preloaded/abi", "*/served/wide",
    "*/served/mpi4py*", "*/served/lonely", "*/served/one", "openmpi/preloaded/*", "openmpi/served/*",
)
LEFT_OUT_OVER = {"iwarp": NOT_OF_THE_CARRIER, "edge": (*NOT_OF_THE_CARRIER, *LARGE)}


def left_out(carrier):
    """Patterns of what is left out unless --all is given."""
    return (*LEFT_OUT, *LEFT_OUT_OVER.get(carrier, LARGE))


# Programs that ask for MPI_THREAD_MULTIPLE: the component for windows refuses them, over any provider.
NO_THREADS = "the component pt2pt of Open MPI 4 has no windows for programs with MPI_THREAD_MULTIPLE"
KNOWN_OVER_WEFT = {
    "debian/served/threads": NO_THREADS,
    "debian/served/mpi4py*": NO_THREADS,
}
# What cannot be had over libfabric's tcp, so that it is no news when the suite runs over that: patterns of names, and reasons.
KNOWN_OVER_TCP = {
    "*/served/one": "there the library for windows has the only NIC of Weft",
    "mpich/messages/unexpected": UNEXPECTED,
    "openmpi/messages/unexpected": UNEXPECTED,
    "intel/messages/unexpected": UNEXPECTED,
    "*/messages/flood": UNEXPECTED,
    "*/messages/backwards": UNEXPECTED,
    "*/messages/overtaking": UNEXPECTED,
    "*/hosts/messages/unexpected": UNEXPECTED,
    "openmpi/messages/matched-probe": "tcp fails to claim a message",
    "openmpi/threads/mixed": "tcp fails to claim a message",
    "debian/messages/matched-probe": "tcp does not find a message that is to be claimed",
    "debian/messages/truncated": "tcp with rxm loses the message after a truncated one",
    "openmpi/hosts/*": "Open MPI 5 chooses tcp's loopback device",
    "openmpi/many-hosts/*": "Open MPI 5 chooses tcp's loopback device",
    "mpich/silent-target/*": "tcp needs the target's calls",
    "mpich/killed/survivors": "MPICH ends with the dead peer",
}
