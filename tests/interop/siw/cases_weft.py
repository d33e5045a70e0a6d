"""Weft against siw: the calls that a user makes, with the answers that a user must get."""

import os
import signal
import struct
import time

import iwarp
from cases_guest import expect_pings, rping_server_ended_well, short_lines
from harness import case, expect, expect_equal, free_port, matches
from iwarp import CRC, ENHANCED, Stream
from proxy import Proxy
from vm import HOST, RDMA_SERVER_PORT, RPING_PORT

# rping's smallest buffer is 23 bytes (it refuses 16), so that stands for the smallest size.
SIZES = {23: 20, 64: 1000, 1500: 20, 4096: 20, 65000: 1000}
# As many rounds are enough when there is little time.
SHORT_COUNT = 50
# What every split is tried with then: each two of role, size and CRC once.
ESSENTIAL = {("client", 64, "on"), ("server", 64, "off"), ("client", 65000, "off"), ("server", 65000, "on")}

# A program that has lost its peer must have said so and ended after this time.
END_TIMEOUT_S = 30
RUN_TIMEOUT_S = 300

# What an error text has to contain, at least, to be a clear one. (A siw whose program is killed may still send a Terminate:
# "the peer ended the stream", and its reason.)
GONE = r"disconnect|closed|reset|lost|terminat|gone|ended the stream"


def last_words(program):
    """The last lines of what a program says, each not longer than tells: data of pings fill a screen."""
    return " | ".join(line[:160] for line in program.text().splitlines()[-3:])


def wait_success(who, program, timeout_s=RUN_TIMEOUT_S):
    code = program.wait(timeout_s)
    expect(code == 0, f"{who} ended with {code}; it says: {last_words(program)}")


def wait_error(who, program, pattern, timeout_s=END_TIMEOUT_S):
    """The program ends by itself, not with 0, not by a signal, and its text says why."""
    code = program.wait(timeout_s)
    text = program.text()[-600:].strip()
    expect(code > 0, f"{who} ended with {code}, an error is expected; it says: {last_words(program)}")
    expect("panicked" not in text, f"{who} panicked: {text}")
    expect(matches(text, pattern),
           f"{who} does not say what happened (expected something like `{pattern}`): {last_words(program)}")


def await_disconnect(job):
    """Waits until rping in the guest reports the disconnect. It may hang after that, so its end is not waited for."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while "DISCONNECT" not in job.peek():
        expect(time.monotonic() < deadline and not (job.ended.is_set() and "DISCONNECT" not in job.text()),
               f"rping has not seen the end of the connection; it says: {job.text()}")
        time.sleep(0.2)


# --- rping


def weft_is_client(context, size, count, options=()):
    """weft rping -c against rping -s in the guest, data and number of rounds checked on both sides."""
    server = context.guest_server(short_lines(f"rping -s -C {count} -S {size} -v -V -p {RPING_PORT}"), RPING_PORT)
    client = context.weft("rping", "-c", "-a", "127.0.0.1", "-p", context.vm.forwarded(RPING_PORT), "-C", count,
                          "-S", size, "-V", "-v", *options)
    wait_success("weft rping -c", client)
    expect_pings("weft rping -c", client.text(), count)
    code = server.wait(30)
    expect(rping_server_ended_well(code, server.text()), f"rping -s ended with {code}: {server.text()[-600:]}")
    expect_pings("rping -s", server.text(), count, "server ping data")


def weft_is_server(context, size, count, options=()):
    """weft rping -s against rping -c in the guest."""
    port = free_port()
    server = context.weft("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", count, "-S", size, "-V", "-v", *options)
    server.await_listener(port)
    client = context.guest(short_lines(f"rping -c -a {HOST} -p {port} -C {count} -S {size} -V -v"))
    wait_success("rping -c", client)
    expect_pings("rping -c", client.text(), count)
    wait_success("weft rping -s", server, 30)
    expect_pings("weft rping -s", server.text(), count)


for one_size, one_count in SIZES.items():
    for crc in ("on", "off"):
        for role, function in (("client", weft_is_client), ("server", weft_is_server)):
            case(f"weft/rping-{role}-{one_size}-crc-{crc}", short={"count": min(one_count, SHORT_COUNT)},
                 essential=(role, one_size, crc) in ESSENTIAL, size=one_size, count=one_count, options=("--crc", crc))(function)

FEW = {"size": 4096, "count": 20}
case("weft/rping-client-plain", options=("--plain",), **FEW)(weft_is_client)
case("weft/rping-server-plain", options=("--plain",), **FEW)(weft_is_server)
case("weft/rping-client-revision-2", options=("--revision", "2"), **FEW)(weft_is_client)
case("weft/rping-server-revision-1", switches={"mpa_version": 1}, **FEW)(weft_is_server)
case("weft/rping-server-crc-required", switches={"mpa_crc_required": 1}, options=("--crc", "off"), **FEW)(weft_is_server)
case("weft/rping-client-crc-required", switches={"mpa_crc_required": 1}, options=("--crc", "on"), **FEW)(weft_is_client)
case("weft/rping-client-crc-forbidden", switches={"mpa_crc_strict": 1}, options=("--crc", "off"), **FEW)(weft_is_client)
case("weft/rping-server-crc-forbidden", switches={"mpa_crc_strict": 1}, options=("--crc", "off"), **FEW)(weft_is_server)
case("weft/rping-server-peer-to-peer", switches={"peer_to_peer": 1}, essential=True, **FEW)(weft_is_server)


# --- messages of rdmacm-utils


def rdma_server_in_guest(context, options=()):
    """weft interop rdma-client against rdma_server in the guest."""
    server = context.guest_server(f"rdma_server -p {RDMA_SERVER_PORT}", RDMA_SERVER_PORT)
    address = f"127.0.0.1:{context.vm.forwarded(RDMA_SERVER_PORT)}"
    wait_success("weft interop rdma-client", context.weft("interop", "rdma-client", "--connect", address, *options), 30)
    wait_success("rdma_server", server, 30)
    expect("rdma_server: end 0" in server.text(), f"rdma_server says: {server.text()}")


def rdma_client_in_guest(context, options=()):
    """weft interop rdma-server against rdma_client in the guest."""
    port = free_port()
    server = context.weft("interop", "rdma-server", "--listen", f"127.0.0.1:{port}", *options)
    server.await_listener(port)
    client = context.guest(f"rdma_client -s {HOST} -p {port}")
    wait_success("rdma_client", client, 30)
    expect("rdma_client: end 0" in client.text(), f"rdma_client says: {client.text()}")
    wait_success("weft interop rdma-server", server, 30)


case("weft/rdma-client")(rdma_server_in_guest)
case("weft/rdma-client-revision-1", options=("--revision", "1"))(rdma_server_in_guest)
case("weft/rdma-server")(rdma_client_in_guest)
case("weft/rdma-server-revision-1", switches={"mpa_version": 1})(rdma_client_in_guest)


# --- refusals


@case("weft/reject")
def reject(context):
    """weft rejects rping's request with private data; rping reports the rejection."""
    port = free_port()
    server = context.weft("interop", "reject", "--listen", f"127.0.0.1:{port}")
    server.await_listener(port)
    client = context.guest(f"rping -c -a {HOST} -p {port} -C 1")
    code = client.wait(30)
    expect(code != 0 and "REJECTED" in client.text(), f"rping ended with {code}: {client.text()}")
    wait_success("weft interop reject", server, 30)


@case("weft/reject-bytes")
def reject_bytes(context):
    """The bytes of the rejection: R set, the words in the private data, then the end."""
    port = free_port()
    server = context.weft("interop", "reject", "--listen", f"127.0.0.1:{port}")
    server.await_listener(port)
    with Stream.connect(port) as stream:
        _, flags, revision, private_data = stream.request()
        context.note(f"reply: flags {flags:02x}, revision {revision}, private data {private_data.hex(' ')}")
        expect(flags & iwarp.REJECT, f"flags {flags:02x} have no R")
        expect_equal("revision", revision, 2)
        expect_equal("private data behind IRD and ORD", private_data[4:], b"weft says no")
        expect_equal("what follows", stream.receive_end(), (b"", "closed"))
    wait_success("weft interop reject", server, 30)


def client_is_refused(context, options, pattern):
    """What weft asks for, siw or rping does not take; weft says so and ends."""
    context.guest_server(f"rping -s -p {RPING_PORT}", RPING_PORT)
    client = context.weft("rping", "-c", "-a", "127.0.0.1", "-p", context.vm.forwarded(RPING_PORT), "-C", 1, *options)
    wait_error("weft rping -c", client, pattern)


case("weft/client-markers-are-refused", options=("--markers", "on"), pattern="reject|refuse")(client_is_refused)
case("weft/client-crc-is-refused", switches={"mpa_crc_strict": 1}, options=("--crc", "on"),
     pattern="reject|refuse")(client_is_refused)
case("weft/client-revision-1-is-cut-off", options=("--revision", "1", "--timeout", "3"),
     pattern="time|answer|repl|" + GONE)(client_is_refused)


@case("weft/client-nobody-listens")
def nobody_listens(context):
    """No listener in the guest: weft fails with a reason."""
    client = context.weft("rping", "-c", "-a", "127.0.0.1", "-p", context.vm.forwarded(20003), "-C", 1)
    wait_error("weft rping -c", client, GONE + "|refuse")


@case("weft/server-markers-are-refused")
def server_markers(context):
    """weft asks for markers in its reply, siw closes: both ends say so."""
    port = free_port()
    server = context.weft("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", 1, "--markers", "on")
    server.await_listener(port)
    client = context.guest(f"rping -c -a {HOST} -p {port} -C 1")
    code = client.wait(END_TIMEOUT_S)
    expect(code != 0, f"rping ended with 0: {client.text()}")
    wait_error("weft rping -s", server, GONE)


# --- errors in full operation


@case("weft/bad-stag-is-answered", essential=True)
def bad_stag(context):
    """weft writes to STag 0xdeadbeef; siw's Terminate is read rightly although siw swaps its nibbles."""
    context.guest_server(f"rping -s -p {RPING_PORT}", RPING_PORT)
    address = f"127.0.0.1:{context.vm.forwarded(RPING_PORT)}"
    program = context.weft("interop", "bad-stag", "--connect", address)
    program.wait(END_TIMEOUT_S)
    expect("terminate layer=1 type=1 code=0" in program.text(), f"weft interop bad-stag says: {program.text()}")


def through_proxy_to_server(context, change):
    """rping -c in the guest, the proxy, weft rping -s."""
    port = free_port()
    server = context.weft("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", 10, "-S", 4096, "--crc", "on")
    server.await_listener(port)
    proxy = context.close_later(Proxy(port, change))
    client = context.guest(f"rping -c -a {HOST} -p {proxy.port} -C 10 -S 4096")
    return proxy, server, client


def through_proxy_to_siw(context, change):
    """weft rping -c, the proxy, rping -s in the guest."""
    server = context.guest_server(f"rping -s -p {RPING_PORT} -C 10 -S 4096", RPING_PORT)
    proxy = context.close_later(Proxy(context.vm.forwarded(RPING_PORT), change))
    client = context.weft("rping", "-c", "-a", "127.0.0.1", "-p", proxy.port, "-C", 10, "-S", 4096, "--crc", "on")
    return proxy, client, server


def expect_weft_terminates(context, proxy, from_initiator, control):
    """Weft's Terminate has its nibbles where RFC 5040 section 4.8 has them."""
    expect(proxy.wait(END_TIMEOUT_S), "the connection stays open")
    terminates = proxy.terminates(from_initiator)
    for payload in terminates:
        context.note(f"Terminate: {payload.hex(' ')}")
    expect_equal("number of weft's Terminates", len(terminates), 1)
    expect_equal("layer, type and code", terminates[0][:2], bytes.fromhex(control))


def flip_crc(wanted_direction, wanted_number):
    def change(from_initiator, number, segment):
        if (from_initiator, number) == (wanted_direction, wanted_number):
            return iwarp.fpdu(segment.raw, True, flip=0x80)
        return None
    return change


@case("weft/server-terminates-on-bad-crc", essential=True)
def server_bad_crc(context):
    """A CRC of siw's is damaged on its way: weft sends Terminate 2/0/2, says CRC, and ends; so does rping."""
    proxy, server, client = through_proxy_to_server(context, flip_crc(True, 2))
    wait_error("weft rping -s", server, "CRC")
    expect_weft_terminates(context, proxy, False, "20 02")
    await_disconnect(client)


@case("weft/client-terminates-on-bad-crc", essential=True)
def client_bad_crc(context):
    """The same, with weft as the client."""
    proxy, client, _ = through_proxy_to_siw(context, flip_crc(False, 2))
    wait_error("weft rping -c", client, "CRC")
    expect_weft_terminates(context, proxy, True, "20 02")


def new_stag(from_initiator, _, segment):
    """The STag of each RDMA Write of the responder becomes another; the CRC is right."""
    if not from_initiator and segment.is_tagged and segment.opcode == iwarp.WRITE:
        changed = segment.raw[:2] + struct.pack(">I", segment.stag ^ 0x5A5A5A00) + segment.raw[6:]
        return iwarp.fpdu(changed, True)
    return None


@case("weft/client-terminates-on-bad-stag", essential=True)
def client_bad_stag(context):
    """The STag of siw's write is changed on its way: weft sends Terminate 1/1/0, says STag, and ends."""
    proxy, client, _ = through_proxy_to_siw(context, new_stag)
    wait_error("weft rping -c", client, "STag")
    expect_weft_terminates(context, proxy, True, "11 00")


@case("weft/server-terminates-on-bad-read-stag", essential=True)
def server_bad_read_stag(context):
    """A read request for an STag that weft never gave out: weft sends Terminate 0/1/0 (RFC 5040 section 4.8), says STag."""
    port = free_port()
    server = context.weft("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", 1)
    server.await_listener(port)
    with Stream.connect(port) as stream:
        stream.request(flags=ENHANCED | CRC)
        stream.send_fpdu(iwarp.read_request(1, 1, 0, 16, 0xDEADBEEF, 0))
        segment = stream.receive_fpdu()
        context.note(f"FPDU: {segment.raw.hex(' ')}")
        expect_equal("opcode", segment.opcode, iwarp.TERMINATE)
        expect_equal("layer, type and code", segment.payload[:2], bytes.fromhex("01 00"))
        expect_equal("what follows", stream.receive_end(), (b"", "closed"))
    wait_error("weft rping -s", server, "STag")


@case("weft/client-takes-siws-terminate")
def client_takes_terminate(context):
    """A CRC of weft's is damaged on its way: siw's Terminate (nibbles swapped) is understood: weft says CRC and ends."""
    proxy, client, _ = through_proxy_to_siw(context, flip_crc(True, 1))
    wait_error("weft rping -c", client, "CRC")
    expect_equal("siw's Terminates", [t[:2].hex() for t in proxy.terminates(False)], ["0202"])


@case("weft/server-takes-siws-terminate")
def server_takes_terminate(context):
    """The same, with weft as the server."""
    proxy, server, client = through_proxy_to_server(context, flip_crc(False, 1))
    wait_error("weft rping -s", server, "CRC")
    expect_equal("siw's Terminates", [t[:2].hex() for t in proxy.terminates(True)], ["0202"])
    await_disconnect(client)


# --- a peer that goes away


def endless(context, server_in_guest, *options):
    """A transfer that does not end by itself. Returns (weft's program, the guest's job) when it is under way."""
    count = 1000000
    if server_in_guest:
        job = context.guest_server(f"rping -s -S 4096 -p {RPING_PORT}", RPING_PORT)
        port, role = context.vm.forwarded(RPING_PORT), "-c"
        program = context.weft("rping", role, "-a", "127.0.0.1", "-p", port, "-C", count, "-S", 4096, "-v", *options)
    else:
        port = free_port()
        program = context.weft("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", count, "-S", 4096, "-v", *options)
        program.await_listener(port)
        job = context.guest(f"rping -c -a {HOST} -p {port} -C {count} -S 4096")
    deadline = time.monotonic() + END_TIMEOUT_S
    while program.text().count("ping data") < 20:
        expect(time.monotonic() < deadline and program.process.poll() is None,
               f"no transfer after {END_TIMEOUT_S} s: {program.text()[-600:]}")
        time.sleep(0.05)
    return program, job


@case("weft/client-siw-is-killed", essential=True)
def client_siw_killed(context):
    """rping -s is killed in mid-transfer: weft rping -c ends with an error that says so."""
    program, job = endless(context, True)
    job.kill()
    wait_error("weft rping -c", program, GONE)


@case("weft/server-siw-is-killed", essential=True)
def server_siw_killed(context):
    """rping -c is killed in mid-transfer: weft rping -s ends with an error that says so."""
    program, job = endless(context, False)
    job.kill()
    wait_error("weft rping -s", program, GONE)


@case("weft/client-siw-falls-silent")
def client_siw_silent(context):
    """The whole guest stops without closing anything: weft rping -c --timeout 3 ends with an error that says so."""
    program, _ = endless(context, True, "--timeout", 3)
    os.kill(context.vm.process.pid, signal.SIGSTOP)
    try:
        wait_error("weft rping -c", program, "time|answer|silent")
    finally:
        os.kill(context.vm.process.pid, signal.SIGCONT)


@case("weft/weft-is-killed", essential=True)
def weft_killed(context):
    """weft rping -s is killed in mid-transfer: siw sees the connection end."""
    program, job = endless(context, False)
    os.kill(program.process.pid, signal.SIGKILL)
    await_disconnect(job)
