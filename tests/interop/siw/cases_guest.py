"""siw against siw, inside the guest: shows that the VM and its programs are sound before anything else is blamed."""

from harness import case, expect, expect_equal
from vm import GUEST, RDMA_SERVER_PORT, RPING_PORT



def short_lines(command):
    """The command with the lines of its standard output cut to 48 characters, standard error behind them, and its own
    exit code. (In one stream rping's two outputs would break each other's lines.)"""
    return (f"set -o pipefail; {command} 2>/tmp/errors.$$ | cut -c1-48; code=$?; cat /tmp/errors.$$; "
            "rm /tmp/errors.$$; exit $code")


def expect_pings(who, text, count, word="ping data"):
    """rping exits 0 even when it was cut off early, so its lines are what counts."""
    lines = [line for line in text.splitlines() if word in line]
    expect_equal(f"number of `{word}` lines of {who}", len(lines), count)
    for number, line in enumerate(lines):
        expect(f"rdma-ping-{number}: " in line, f"line {number} of {who} is `{line[:60]}`")


def rping_server_ended_well(code, text):
    """0, or rping's own race: at the end one of its threads closes the channel on which the other waits, which then says so and exits with
    255. That is after the disconnect; how many pings there were is checked by the lines."""
    own_race = code == 255 and "DISCONNECT EVENT" in text and "rdma_get_cm_event: Bad file descriptor" in text
    return code == 0 or own_race


def rping_pair(context, size, count):
    """rping in both roles."""
    options = f"-C {count} -S {size} -v -V"
    server = context.guest_server(short_lines(f"rping -s {options}"), RPING_PORT)
    client = context.guest(short_lines(f"rping -c -a {GUEST} {options}"))
    expect_equal("exit code of the client", client.wait(60), 0)
    code = server.wait(20)
    expect(rping_server_ended_well(code, server.text()), f"the server ended with {code}: {server.text()[-300:]}")
    expect_pings("the client", client.text(), count)
    expect_pings("the server", server.text(), count, "server ping data")


case("guest/rping-64", essential=True, size=64, count=100)(rping_pair)
case("guest/rping-65000", size=65000, count=20)(rping_pair)
case("guest/rping-64-crc", switches={"mpa_crc_required": 1}, size=64, count=100)(rping_pair)
case("guest/rping-64-peer-to-peer", switches={"peer_to_peer": 1}, size=64, count=100)(rping_pair)


def messages(context):
    """rdma_server and rdma_client."""
    server = context.guest_server(f"rdma_server -p {RDMA_SERVER_PORT}", RDMA_SERVER_PORT)
    client = context.guest(f"rdma_client -s {GUEST} -p {RDMA_SERVER_PORT}")
    expect_equal("exit code of rdma_client", client.wait(30), 0)
    expect_equal("exit code of rdma_server", server.wait(30), 0)


case("guest/rdma-client")(messages)
case("guest/rdma-client-revision-1", switches={"mpa_version": 1})(messages)


@case("guest/write-bandwidth")
def write_bandwidth(context):
    """ib_write_bw of perftest."""
    options = "-R -s 65536 -n 200 -p 18515"
    server = context.guest_server(f"ib_write_bw {options}", 18515)
    client = context.guest(f"ib_write_bw {options} {GUEST}")
    code = client.wait(60)
    expect(code == 0, f"the client ended with {code}: {client.text()[-600:]}; the server says: {server.peek()[-600:]}")
    expect_equal("exit code of the server", server.wait(30), 0)
    context.note(client.text().strip().splitlines()[-2])


@case("guest/rping-smallest")
def smallest(context):
    """The smallest size that rping itself takes."""
    code, text = context.vm.run(f"rping -c -a {GUEST} -S 16 -C 1; rping -c -a {GUEST} -S 1000000 -C 1")
    context.note(f"exit code {code}: {text}")
    expect("Invalid size" in text, f"rping takes 16 bytes: {text}")
