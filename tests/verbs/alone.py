"""Cases of one place: what devices say, programs of ours that break rules, other suites."""

import os
import subprocess
import tempfile
import time

import bindings
import loopback
import pyverbs

HERE = os.path.dirname(os.path.abspath(__file__))
# Libraries of the system whose names ours must have, each with its version. Debian's package librdmacm1 is one that
# perftest needs.
SYSTEM = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
LIBRARIES = {"libibverbs": "libibverbs.so.1", "librdmacm": "librdmacm.so.1"}
# A network of one's own, without root.
NETWORK = ["unshare", "--user", "--map-root-user", "--net"]


def run_devices(session, place):
    """What programs are told of devices: by the library, and by files."""
    session.run_alone(place, "ibv_devices", ["ibv_devices"], ["weft0"])
    wanted = ["hca_id:\tweft0", "PORT_ACTIVE", "Ethernet", "RoCE v2", "max_qp_rd_atom:"]
    session.run_alone(place, "ibv_devinfo", ["ibv_devinfo", "-v"], wanted)
    wanted = ["CA 'weft0'", "Number of ports: 1", "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"]
    session.run_alone(place, "ibstat", ["ibstat"], wanted)
    session.run_alone(place, "ibstat-l", ["ibstat", "-l"], ["weft0"])
    wanted = ["device 'weft0' port 1", "0000:0000:0000:0000:0000:ffff:", "4: ACTIVE", "Ethernet"]
    session.run_alone(place, "ibstatus", ["ibstatus"], wanted)
    session.run_alone(place, "files", ["sh", "-c", FILES], ["uverbs0 weft0 /dev/null infiniband RoCE v2"])
    session.run_alone(place, "refused", ["ibv_xsrq_pingpong", "-g", "0"], ["XRC"], code=1)


# By the paths that NCCL, UCX, Mooncake and pyverbs follow.
FILES = """set -e
cd /sys/class/infiniband/weft0/device/net/*
[ -c /dev/infiniband/uverbs0 ] && [ -r /dev/infiniband/uverbs0 ]
[ "$(cat /sys/class/infiniband/weft0/ports/1/gid_attrs/ndevs/0)" = "$(ls /sys/class/infiniband/weft0/device/net)" ]
hardware=$(realpath /sys/class/infiniband/weft0/../..)
echo $(ls /sys/class/infiniband_verbs | grep uverbs) $(cat /sys/class/infiniband_verbs/uverbs0/ibdev) \
    $(readlink /dev/infiniband/uverbs0) $(ls $hardware | grep 'band$') \
    $(cat /sys/class/infiniband/weft0/ports/1/gid_attrs/types/0)
"""


def run_names(session):
    """Whether our libraries export each name and version that the system's export."""
    for label, file in LIBRARIES.items():
        name = f"names/{label}"
        if not session.wanted(name):
            continue
        began = time.monotonic()
        paths = [os.path.join(folder, file) for folder in SYSTEM]
        system = next((path for path in paths if os.path.exists(path)), None)
        if system is None:
            session.report.add("skipped", name, 0, f"this system has no {file}")
            continue
        own = exported(os.path.join(verbs_folder(session.arguments), file))
        # Those of the ABI between libibverbs and drivers of the system's own version are another matter.
        missing = sorted(one for one in exported(system) - own if "PRIVATE" not in one)
        reason = f"not exported: {' '.join(missing)}" if missing or not own else ""
        session.report.add("failed" if reason else "passed", name, time.monotonic() - began, reason)


def run_contract(session, place):
    """Programs that break the rules of libibverbs get errors, and live."""
    session.run_built(place, "contract", "contract/contract.c", [], ["passed thousand-queue-pairs"])
    session.run_built(place, "limits", "contract/limits.c", [], ["passed destroyed-under-work"])


def run_loading(session, place):
    """A program that brings a libibverbs under another name, or loads one by name, has Weft's."""
    name = f"{place.name}/loading"
    if not session.wanted(name):
        return
    source = os.path.join(HERE, "loading")
    with tempfile.TemporaryDirectory(prefix="weft-built-") as folder:
        library, program = os.path.join(folder, "libibverbs-0badc0de.so.1"), os.path.join(folder, "loading")
        bundled = ["-shared", "-fPIC", f"-Wl,-soname,{os.path.basename(library)}",
                   f"-Wl,--version-script={source}/bundled.versions", f"{source}/bundled.c"]
        linked = [f"{source}/loading.c", library, f"-Wl,-rpath,{folder}"]
        if session.build(name, library, bundled) and session.build(name, program, linked):
            session.run_alone(place, "loading", [program], ["passed all"])


def run_wild(session, place, seconds):
    """A caller that keeps to no rule. Its seed is another each time; what it says has it."""
    seed = session.arguments.seed if session.arguments.seed is not None else time.time_ns() // 1000000
    words = ["--seed", str(seed), "--seconds", str(seconds)]
    session.run_built(place, "wild", "wild/wild.c", words, ["passed "], limit=120 + seconds)


def run_killed(session, place):
    """Processes that are killed while they connect."""
    seed = session.arguments.seed if session.arguments.seed is not None else 1
    session.run_built(place, "killed", "killed/killed.c", ["--seed", str(seed)], ["passed all that were killed"],
                      limit=300)


def run_leaving(session, place):
    """Programs that go away right after their last message."""
    session.run_built(place, "leaving", "leaving/leaving.c", [], ["passed all that leave"], limit=300)


def run_stopped(session, place):
    """Queue pairs that end while the process of their peer is stopped."""
    session.run_built(place, "stopped", "stopped/stopped.c", [], ["passed all whose peers were stopped"], limit=300)


def run_pyverbs(session, place):
    if session.wanted("pyverbs"):
        pyverbs.run(place.command(place.client, []), place.environment, session.report)


def run_bindings(session, place):
    """Programs over the crate `ibverbs`."""
    if not session.wanted(f"{place.name}/crate"):
        return
    program, example, reason = bindings.build()
    if reason:
        session.report.add("skipped", f"{place.name}/crate", 0, reason)
        return
    session.run_alone(place, "crate", [program], ["passed all 6"])
    # The crate's own: it takes the second GID, so the loopback gets a second address.
    script = f"ip link set lo up; ip addr add 127.0.0.2/8 dev lo; exec {example}"
    run_in_network(session, place, "crate-example", script, ["sent", "received"])


def run_crate_tests(session, place):
    """The own tests of the same crate."""
    name = f"{place.name}/crate-tests"
    if session.wanted(name):
        loopback.run(place, name, session.report)


def run_manager(session, place):
    """Programs that connect by rdma_cm are told that it is not built, each name once."""
    wanted = ["rdma_create_event_channel: the connection manager is not built yet"]
    session.run_alone(place, "manager", ["ib_send_lat", "-F", "-R", "-n", "10", "-p", "18999"], wanted, code=1)
    # libfabric tries it for each program, which need not use it.
    session.run_alone(place, "libfabric", ["fi_info", "-l"], ["version:"], unwanted=["connection manager"])


def run_perf(session, place):
    """The experiment that measures these programs beside Weft's own client."""
    words = [session.arguments.weft, "perf", "verbs", "--quick", "--launches", "1", "--timeout", "3600"]
    session.run_alone(place, "perf", words, ["perftest", "atomic", "write", "read", "send"])


def run_six(session, place):
    """A ping-pong in a network whose only address is that of IPv6's loopback."""
    pingpong = "ibv_rc_pingpong -g 0 -n 500 -c"
    script = (f"ip link set lo up; ip addr del 127.0.0.1/8 dev lo; {pingpong} & "
              f"until {pingpong} ::1; do sleep 0.2; done; wait")
    run_in_network(session, place, "six", script, ["GID ::1", "iters in"])


def run_in_network(session, place, name, script, wanted):
    """A script in a network of its own: devices are those that it makes before it runs programs."""
    if not session.wanted(f"{place.name}/{name}"):
        return
    if subprocess.run([*NETWORK, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        session.report.add("skipped", f"{place.name}/{name}", 0, "no user namespaces here")
        return
    session.run_alone(place, name, [*NETWORK, "sh", "-c", script], wanted)


def verbs_folder(arguments):
    """Where our libraries are: it comes first among the folders of libraries that `weft run` sets."""
    shown = subprocess.run([arguments.weft, "run", "--print"], stdout=subprocess.PIPE, text=True, check=True).stdout
    line = next(line for line in shown.splitlines() if line.startswith("export LD_LIBRARY_PATH="))
    return line.split("=", 1)[1].strip("'").split(":")[0]


def exported(library):
    """Names with their versions, as NAME@VERSION; default versions and others alike."""
    shown = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True)
    names = (line.split()[-1] for line in shown.stdout.splitlines())
    return {name.replace("@@", "@") for name in names if "@" in name}
