"""A network that loses datagrams, or lets none through: rules of nftables, in network namespaces of the test's own."""

import json
import os
import shutil
import subprocess
import sys

# Set for the process that stands in the namespace, so that it does not make another.
INSIDE = "WEFT_MPI_FILTERED"
TABLE = "weft-mpi"
PORTS = "meta l4proto udp"


class Filter:
    """What is dropped of the datagrams that come in. TCP is let through: launchers need it, and iWARP."""

    def __init__(self, every):
        """One of so many at random; 1: all."""
        self.every = every

    @property
    def rules(self):
        chosen = PORTS if self.every == 1 else f"{PORTS} numgen random mod {self.every} 0"
        return f"table inet {TABLE} {{\nchain input {{\ntype filter hook input priority 0\n{chosen} counter drop\n}}\n}}\n"

    def missing(self):
        """Why this machine cannot do it."""
        if os.geteuid() != 0:
            return "root is needed, for a network namespace with a filter"
        lacking = [tool for tool in ("nft", "unshare", "ip") if not shutil.which(tool)]
        return f"{', '.join(lacking)} is missing: apt install nftables util-linux iproute2" if lacking else None

    def enter(self):
        """Goes on in a network namespace of its own, where only loopback is, with the filter: does not return outside of it."""
        if INSIDE in os.environ:
            return
        prepare = 'ip link set lo up && nft "$RULES" && exec "$@"'
        environment = {**os.environ, INSIDE: "1", "RULES": self.rules}
        sys.stdout.flush()
        os.execvpe("unshare", ["unshare", "--net", "--", "sh", "-c", prepare, "sh", sys.executable, *sys.argv], environment)

    @staticmethod
    def dropped(listing):
        """Datagrams, of what `nft -j list table` has said."""
        rules = (entry["rule"]["expr"] for entry in json.loads(listing)["nftables"] if "rule" in entry)
        return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)

    def dropped_here(self):
        return self.dropped(subprocess.run(self.counting, stdout=subprocess.PIPE, text=True, check=True).stdout)

    @property
    def counting(self):
        return ["nft", "-j", "list", "table", "inet", TABLE]


def of(arguments):
    """The filter that was asked for, if one was."""
    if arguments.no_udp:
        return Filter(1)
    return Filter(arguments.lose) if arguments.lose else None
