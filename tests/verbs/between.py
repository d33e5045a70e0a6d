"""Cases between two hosts of a lab, each a network namespace: over a perfect link, and over one that loses packets."""

import contextlib
import os
import subprocess

import alone
from pairs import BETWEEN, NETWORKS, PAIRS
from session import Place

# The server's host, as the client knows it.
SERVER = "10.0.0.2"
# Of a hundred packets, in each direction.
LOST = "1"


def run(session):
    """The same programs as on one host."""
    pairs = [case for case in PAIRS if case.name in BETWEEN]
    with hosts(session, "lab", ["rc_pingpong", *BETWEEN, *(f"iwarp/{name}" for name in BETWEEN)]) as place:
        if place is not None:
            alone.run_devices(session, place)
            session.run_pairs(place, pairs)
            session.run_pairs(place.over("iwarp"), pairs)
    with hosts(session, "loss", [f"{carrier}/{name}" for carrier in NETWORKS for name in BETWEEN]) as place:
        if place is not None and lose(session, place):
            for carrier in NETWORKS:
                session.run_pairs(place.over(carrier), pairs)


@contextlib.contextmanager
def hosts(session, name, cases):
    """A place whose ends are the hosts of a lab; None if no case is wanted, or there can't be one."""
    arguments = session.arguments
    if not any(session.wanted(f"{name}/{case}") for case in cases):
        yield None
        return
    lab = f"verbs-{name}{os.getpid()}"
    made = command(arguments, "up", "--name", lab, "--rate", "none")
    if made.returncode != 0:
        session.report.add("skipped", name, 0, made.stdout.strip())
        yield None
        return
    try:
        client, server = ([arguments.weft, "lab", "exec", "--name", lab, host, "--"] for host in "01")
        place = Place(name, arguments.weft, server, client, SERVER, "")
        place.lab = lab
        yield place
    finally:
        command(arguments, "down", "--name", lab)


def lose(session, place):
    """Has the link of the lab lose packets."""
    shaped = command(session.arguments, "shape", "--name", place.lab, "rail0", "--loss", LOST)
    if shaped.returncode != 0:
        session.report.add("skipped", place.name, 0, shaped.stdout.strip())
    return shaped.returncode == 0


def command(arguments, *words):
    return subprocess.run([arguments.weft, "lab", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
