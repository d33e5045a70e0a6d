"""Programs of Debian that run at two ends, and which of them run where."""

PINGPONG = ["-g", "0", "-n", "500", "-c"]
PERFTEST = ["-x", "0", "-F", "-n", "500"]
UNWANTED = ["Couldn't", "Failed", "failed", "Completion with error"]


class Case:
    """A program that runs at both ends, what must be in what the client says, and what in neither's words."""

    def __init__(self, name, command, wanted, unwanted=()):
        self.name, self.command, self.wanted, self.unwanted = name, command, wanted, unwanted


def pingpong(name, *more):
    plain = name.replace("ibv_", "")
    return Case("-".join([plain, *(word.strip("-") for word in more)]), [name, *PINGPONG, *more], ["iters in"],
                ["Failed", "invalid data"])


def perftest(name, size, *more):
    label = "-".join([name, str(size), *(word.strip("-") for word in more)])
    return Case(label, [name, *PERFTEST, "-s", str(size), *more], [f" {size} "], UNWANTED)


def all_sizes(name, *more):
    """Powers of two from 2 bytes to 8 MiB. A few of each, for the long ones take their time."""
    label = "-".join([name, "all", *(word.strip("-") for word in more)])
    return Case(label, [name, "-x", "0", "-F", "-n", "10", "-a", *more], [" 2 ", " 65536 ", " 8388608 "], UNWANTED)


# `ib_write_lat` has one size: each of its messages waits for the NIC's thread to take over, for 50 ms where the machine
# is busy.
PAIRS = [
    pingpong("ibv_rc_pingpong"),
    pingpong("ibv_rc_pingpong", "-e"),
    pingpong("ibv_uc_pingpong"),
    pingpong("ibv_uc_pingpong", "-e"),
    pingpong("ibv_srq_pingpong"),
    pingpong("ibv_srq_pingpong", "-e"),
    perftest("ib_send_lat", 2),
    perftest("ib_send_lat", 4096, "-e"),
    perftest("ib_send_bw", 65536),
    perftest("ib_send_bw", 1024, "--use-srq"),
    perftest("ib_write_bw", 8),
    perftest("ib_write_bw", 65536),
    perftest("ib_write_bw", 65536, "-q", "4"),
    perftest("ib_write_bw", 4096, "-c", "UC"),
    perftest("ib_write_lat", 8),
    perftest("ib_read_bw", 65536),
    perftest("ib_read_lat", 8),
    perftest("ib_atomic_bw", 8),
    perftest("ib_atomic_lat", 8),
    perftest("ib_send_lat", 2, "-c", "UC"),
    perftest("ib_send_lat", 2, "--use-srq"),
    perftest("ib_send_bw", 4096, "-e"),
    perftest("ib_send_bw", 4096, "-c", "UC"),
    perftest("ib_send_bw", 4096, "-q", "4", "--use-srq"),
    perftest("ib_write_lat", 8, "-c", "UC"),
    perftest("ib_read_bw", 4096, "-e"),
    perftest("ib_read_bw", 65536, "-q", "4"),
    perftest("ib_read_lat", 8, "-e"),
    perftest("ib_atomic_bw", 8, "-e"),
    perftest("ib_atomic_bw", 8, "-q", "4"),
    all_sizes("ib_send_bw"),
    all_sizes("ib_send_bw", "-c", "UC"),
    all_sizes("ib_send_lat"),
    all_sizes("ib_write_bw"),
    all_sizes("ib_read_bw"),
    all_sizes("ib_read_lat"),
]
# Those between hosts, and over each carrier.
BETWEEN = {"rc_pingpong", "srq_pingpong", "ib_send_lat-2", "ib_write_bw-65536", "ib_read_bw-65536", "ib_atomic_bw-8"}
# One of each kind.
ESSENTIAL = {"rc_pingpong", "rc_pingpong-e", "uc_pingpong", "srq_pingpong", "ib_send_lat-2", "ib_send_bw-65536",
             "ib_write_bw-65536", "ib_write_lat-8", "ib_read_bw-65536", "ib_read_lat-8", "ib_atomic_bw-8",
             "ib_atomic_lat-8"}
CARRIERS = ["iwarp", "shm"]
# Those that cross a network.
NETWORKS = ["edge", "iwarp"]
