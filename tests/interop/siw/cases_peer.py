"""How siw behaves towards bytes that are written by hand. Weft has to live with each of these.

Where siw departs from its RFCs the case says so; a kernel that behaves otherwise fails the case, and then Weft's
answer to that behaviour wants a second look.
"""

import struct
import time

import iwarp
from cases_guest import expect_pings, short_lines
from harness import case, expect, expect_equal
from iwarp import CRC, ENHANCED, MARKERS, REJECT, REPLY_KEY, Stream
from vm import HOST, RDMA_SERVER_PORT, RPING_PORT

# siw installs its receive callback after it has sent its reply: what arrives in between sleeps in the socket.
SETTLE_S = 0.1


def settle(context):
    """Gives siw time to be ready, by the guest's own clock too: its only processor has run a program meanwhile."""
    time.sleep(SETTLE_S)
    context.vm.check("true")


def hello(context, server="rping", **request):
    """Connects to a program in the guest and starts MPA. Returns (stream, reply, job)."""
    port = RPING_PORT if server == "rping" else RDMA_SERVER_PORT
    command = f"rping -s -v -p {port}" if server == "rping" else f"rdma_server -p {port}"
    job = context.guest_server(command, port)
    stream = context.close_later(Stream.connect(context.vm.forwarded(port)))
    reply = stream.request(**request)
    context.note(f"reply: flags {reply[1]:02x}, revision {reply[2]}, private data {reply[3].hex(' ')}")
    settle(context)
    return stream, reply, job


def silent_close(context, data):
    """Sends bytes to a listening siw and expects an end without any reply."""
    context.guest_server(f"rping -s -p {RPING_PORT}", RPING_PORT)
    with Stream.connect(context.vm.forwarded(RPING_PORT)) as stream:
        stream.send(data)
        seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ') or 'nothing'}, then {how}")
    expect_equal("what siw sends", (seen, how), (b"", "closed"))


def expect_terminate(context, stream, control, copied=None):
    """Expects a Terminate with these 4 bytes of control word, then the end of the connection."""
    segment = stream.receive_fpdu()
    context.note(f"FPDU: {segment.raw.hex(' ')}")
    expect_equal("opcode", segment.opcode, iwarp.TERMINATE)
    expect_equal("queue", segment.queue, iwarp.TERMINATE_QUEUE)
    expect_equal("message sequence number", segment.msn, 1)
    expect_equal("the Terminate's control word", segment.payload[:4], bytes.fromhex(control))
    if copied is not None:
        expect_equal("what the Terminate copies", segment.payload[4:], copied)
    rest, how = stream.receive_end()
    context.note(f"then {rest.hex(' ') or 'nothing'}, then {how}")
    expect_equal("what follows the Terminate", (rest, how), (b"", "closed"))


# --- start-up, siw as responder


@case("peer-behaviour/reply-plain")
def reply_plain(context):
    """A plain revision-2 request is echoed: flags, IRD and ORD."""
    _, reply, _ = hello(context)
    expect_equal("reply", reply, (REPLY_KEY, ENHANCED, 2, bytes.fromhex("00010001")))


@case("peer-behaviour/reply-crc")
def reply_crc(context):
    """CRC in the request switches CRC on."""
    _, reply, _ = hello(context, flags=ENHANCED | CRC)
    expect_equal("flags", reply[1], ENHANCED | CRC)


@case("peer-behaviour/reply-crc-required-is-ignored", switches={"mpa_crc_required": 1})
def reply_crc_required(context):
    """siw that requires CRC still accepts a request without it, without CRC (RFC 5044 section 7.1: either side's wish counts)."""
    _, reply, _ = hello(context)
    expect_equal("flags", reply[1], ENHANCED)


@case("peer-behaviour/reject-crc", switches={"mpa_crc_strict": 1})
def reject_crc(context):
    """siw with CRC forbidden rejects a request with CRC: R set, C clear, no IRD and ORD sent but 4 bytes of length."""
    context.guest_server(f"rping -s -p {RPING_PORT}", RPING_PORT)
    with Stream.connect(context.vm.forwarded(RPING_PORT)) as stream:
        stream.send(iwarp.start_frame(iwarp.REQUEST_KEY, ENHANCED | CRC, 2, iwarp.enhanced(1, 1)))
        seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ')}, then {how}")
    expect_equal("reply", seen, REPLY_KEY + bytes.fromhex("30 02 0004 0000 0000"))


@case("peer-behaviour/reject-markers")
def reject_markers(context):
    """siw rejects a request for markers: R set, M clear."""
    context.guest_server(f"rping -s -p {RPING_PORT}", RPING_PORT)
    with Stream.connect(context.vm.forwarded(RPING_PORT)) as stream:
        stream.send(iwarp.start_frame(iwarp.REQUEST_KEY, ENHANCED | MARKERS, 2, iwarp.enhanced(1, 1)))
        seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ')}, then {how}")
    expect_equal("reply", seen, REPLY_KEY + bytes.fromhex("30 02 0004 0000 0000"))


for revision in (0, 1):
    @case(f"peer-behaviour/reply-revision-{revision}", revision=revision)
    def reply_revision(context, revision):
        """An older revision is accepted and echoed, without private data."""
        _, reply, _ = hello(context, server="rdma_server", flags=0, revision=revision)
        expect_equal("reply", reply, (REPLY_KEY, 0, revision, b""))


@case("peer-behaviour/reply-clamps-ird-ord")
def reply_clamps(context):
    """IRD and ORD are clamped to 128, the most that siw has."""
    _, reply, _ = hello(context, private_data=iwarp.enhanced(0x3FFF, 0x3FFF))
    expect_equal("IRD and ORD", reply[3], bytes.fromhex("0080 0080"))


for wish, name in ((iwarp.RTR_WRITE, "write"), (iwarp.RTR_READ, "read"), (0, "nothing"),
                   (iwarp.RTR_WRITE | iwarp.RTR_READ, "both")):
    @case(f"peer-behaviour/peer-to-peer-offered-{name}", wish=wish)
    def peer_to_peer(context, wish):
        """Peer-to-peer set-up: a zero-length write is chosen, a zero-length read only when it alone is offered."""
        _, reply, _ = hello(context, private_data=iwarp.enhanced(iwarp.PEER_TO_PEER | 1, wish | 1))
        chosen = iwarp.RTR_READ if wish == iwarp.RTR_READ else iwarp.RTR_WRITE
        expect_equal("IRD and ORD", reply[3], struct.pack(">HH", iwarp.PEER_TO_PEER | 1, chosen | 1))


@case("peer-behaviour/peer-to-peer-write-then-send")
def peer_to_peer_write(context):
    """After the chosen zero-length write (to STag 0) siw takes messages."""
    stream, _, _ = hello(context, private_data=iwarp.enhanced(iwarp.PEER_TO_PEER | 1, iwarp.RTR_WRITE | 1))
    stream.send_fpdu(iwarp.tagged(iwarp.WRITE, 0, 0))
    settle(context)
    advertise_to_rping(stream, 0x1234, 100)
    expect_equal("opcode of the answer", stream.receive_fpdu().opcode, iwarp.READ_REQUEST)


@case("peer-behaviour/silent-close-long-private-data")
def long_private_data(context):
    """Private data over 256 bytes: closed without a reply (RFC 5044 section 7.1 allows 512)."""
    silent_close(context, iwarp.start_frame(iwarp.REQUEST_KEY, ENHANCED, 2, iwarp.enhanced(1, 1, bytes(253))))


@case("peer-behaviour/accepts-256-bytes-of-private-data")
def private_data_256(context):
    """Private data of 256 bytes, IRD and ORD included, is taken."""
    _, reply, _ = hello(context, private_data=iwarp.enhanced(1, 1, bytes(252)))
    expect_equal("flags", reply[1], ENHANCED)


@case("peer-behaviour/silent-close-revision-3")
def revision_3(context):
    """An unknown revision: closed without a reply."""
    silent_close(context, iwarp.start_frame(iwarp.REQUEST_KEY, ENHANCED, 3, iwarp.enhanced(1, 1)))


@case("peer-behaviour/silent-close-wrong-key")
def wrong_key(context):
    """A wrong key: closed without a reply."""
    silent_close(context, iwarp.start_frame(b"MPA ID Rex Frame", ENHANCED, 2, iwarp.enhanced(1, 1)))


@case("peer-behaviour/silent-close-early-data")
def early_data(context):
    """A byte behind the request, before the reply: closed without a reply."""
    silent_close(context, iwarp.start_frame(iwarp.REQUEST_KEY, ENHANCED, 2, iwarp.enhanced(1, 1)) + b"\0")


@case("peer-behaviour/rping-fails-at-revision-1")
def rping_revision_1(context):
    """`rping -s` takes a request of revision 1, but without IRD and ORD it cannot read: it closes at the first message."""
    stream, reply, job = hello(context, flags=0, revision=1)
    expect_equal("reply", reply, (REPLY_KEY, 0, 1, b""))
    advertise_to_rping(stream, 0x1234, 60)
    seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ') or 'nothing'}, then {how}; rping says: {job.peek().strip()}")
    expect_equal("what siw sends", (seen, how), (b"", "closed"))


# --- start-up, siw as initiator


def initiator(context, command, **reply):
    """Lets a program of the guest connect to us. Returns (stream, request, job)."""
    listener, port = context.listener()
    job = context.guest(command.format(port=port))
    stream = context.close_later(Stream(listener.accept()[0]))
    request = stream.reply(**reply)
    context.note(f"request: flags {request[1]:02x}, revision {request[2]}, private data {request[3].hex(' ') or 'none'}")
    return stream, request, job


RPING = f"rping -c -a {HOST} -p {{port}} -C 3 -v"
RDMA_CLIENT = f"rdma_client -s {HOST} -p {{port}}"


@case("peer-behaviour/request-of-rping")
def request_of_rping(context):
    """rping's request: revision 2, IRD 1, ORD 1, no CRC, no markers; its first message comes by itself."""
    stream, request, _ = initiator(context, RPING)
    expect_equal("request", request, (iwarp.REQUEST_KEY, ENHANCED, 2, bytes.fromhex("00010001")))
    first = stream.receive_fpdu()
    context.note(f"first FPDU: {first.raw.hex(' ')}")
    expect_equal("opcode", first.opcode, iwarp.SEND)
    expect_equal("length", len(first.payload), 16)


@case("peer-behaviour/request-of-rdma-client")
def request_of_rdma_client(context):
    """rdma_client's request: revision 2, IRD 128, ORD 128."""
    stream, request, _ = initiator(context, RDMA_CLIENT, private_data=iwarp.enhanced(128, 128))
    expect_equal("request", request, (iwarp.REQUEST_KEY, ENHANCED, 2, bytes.fromhex("00800080")))
    expect_equal("opcode of the first FPDU", stream.receive_fpdu().opcode, iwarp.SEND)


@case("peer-behaviour/request-revision-1", switches={"mpa_version": 1})
def request_revision_1(context):
    """siw set to revision 1 sends no private data."""
    stream, request, _ = initiator(context, RDMA_CLIENT)
    expect_equal("request", request, (iwarp.REQUEST_KEY, 0, 1, b""))
    expect_equal("opcode of the first FPDU", stream.receive_fpdu().opcode, iwarp.SEND)


@case("peer-behaviour/request-crc", switches={"mpa_crc_required": 1})
def request_crc(context):
    """siw that requires CRC asks for it, and sends correct ones."""
    stream, request, _ = initiator(context, RPING)
    expect_equal("flags", request[1], ENHANCED | CRC)
    expect_equal("opcode of the first FPDU", stream.receive_fpdu().opcode, iwarp.SEND)


@case("peer-behaviour/request-peer-to-peer", switches={"peer_to_peer": 1})
def request_peer_to_peer(context):
    """siw in peer-to-peer mode: offers write and read, sends the chosen zero-length frame first."""
    chosen = iwarp.enhanced(iwarp.PEER_TO_PEER | 1, iwarp.RTR_WRITE | 1)
    stream, request, _ = initiator(context, RPING, private_data=chosen)
    offered = struct.pack(">HH", iwarp.PEER_TO_PEER | 1, iwarp.RTR_WRITE | iwarp.RTR_READ | 1)
    expect_equal("IRD and ORD", request[3], offered)
    frame = stream.receive_fpdu()
    context.note(f"ready-to-receive frame: {frame.raw.hex(' ')}")
    expect_equal("opcode", frame.opcode, iwarp.WRITE)
    expect_equal("length", len(frame.payload), 0)


@case("peer-behaviour/request-peer-to-peer-read", switches={"peer_to_peer": 1})
def request_peer_to_peer_read(context):
    """siw in peer-to-peer mode, when the reply chooses the zero-length read."""
    chosen = iwarp.enhanced(iwarp.PEER_TO_PEER | 1, iwarp.RTR_READ | 1)
    stream, _, _ = initiator(context, RPING, private_data=chosen)
    frame = stream.receive_fpdu()
    context.note(f"ready-to-receive frame: {frame.raw.hex(' ')}")
    expect_equal("opcode", frame.opcode, iwarp.READ_REQUEST)


def refused_reply(context, **reply):
    stream, _, job = initiator(context, RPING, **reply)
    seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ') or 'nothing'}, then {how}")
    code = job.wait(30)
    context.note(f"rping ended with {code}: {job.text().strip()}")
    expect(how != "silent", "siw keeps the connection open")
    expect("ping data" not in job.text(), f"rping went on: {job.text()}")
    return seen, code, job.text()


@case("peer-behaviour/reply-with-crc-switches-crc-on")
def reply_with_crc(context):
    """CRC in the reply alone switches CRC on."""
    stream, _, _ = initiator(context, RPING, flags=ENHANCED | CRC)
    expect_equal("opcode of the first FPDU", stream.receive_fpdu().opcode, iwarp.SEND)


@case("peer-behaviour/refuses-reply-with-markers")
def reply_with_markers(context):
    """A reply with M: siw closes without a word; rping sees it as rejected."""
    seen, _, _ = refused_reply(context, flags=ENHANCED | MARKERS)
    expect_equal("what siw sends", seen, b"")


@case("peer-behaviour/refuses-reply-of-revision-1")
def reply_of_revision_1(context):
    """A reply of revision 1 to a request of revision 2: siw closes without a word."""
    seen, _, _ = refused_reply(context, flags=0, revision=1, private_data=b"")
    expect_equal("what siw sends", seen, b"")


@case("peer-behaviour/refuses-reply-with-large-ord")
def reply_with_large_ord(context):
    """A reply whose ORD is over 128: Terminate `insufficient IRD` (RFC 6581 section 8: 2/0/6), its nibbles swapped."""
    seen, _, _ = refused_reply(context, private_data=iwarp.enhanced(1, 129))
    queue_and_numbers = struct.pack(">IIII", 0, iwarp.TERMINATE_QUEUE, 1, 0)
    expect_equal("what siw sends", seen, bytes.fromhex("0016 4147") + queue_and_numbers + bytes.fromhex("02060000 00000000"))


@case("peer-behaviour/takes-a-reject")
def takes_a_reject(context):
    """A reply with R and private data: siw closes; rping reports the rejection and fails."""
    private_data = iwarp.enhanced(0, 0, b"weft says no")
    seen, code, text = refused_reply(context, flags=ENHANCED | REJECT, private_data=private_data)
    expect_equal("what siw sends", seen, b"")
    expect(code != 0, "rping ends with 0 after a reject")
    expect("REJECTED" in text, f"rping says: {text}")


# --- errors in full operation: what siw answers


def advertise_to_rping(stream, stag, size, msn=1):
    """rping's first message of a round: where the buffer is that the server is to read."""
    stream.send_fpdu(iwarp.untagged(iwarp.SEND, iwarp.SEND_QUEUE, msn, struct.pack(">QII", 0x1000, stag, size)))


@case("peer-behaviour/bad-crc")
def bad_crc(context):
    """A wrong CRC: Terminate with layer and type swapped (RFC 5044 section 8: layer 2, type 0, code 2), then closed."""
    stream, _, _ = hello(context, flags=ENHANCED | CRC)
    message = struct.pack(">QII", 0x1000, 1, 64)
    stream.send_fpdu(iwarp.untagged(iwarp.SEND, iwarp.SEND_QUEUE, 1, message), flip=1)
    expect_terminate(context, stream, "02 02 00 00", b"")


def bad_frame(context, ulpdu, control, copied_bytes=None, copied_length=0):
    """An FPDU that siw must refuse. The Terminate says so with layer and type swapped, and so are the M, D and R bits
    (03 for M and D, where RFC 5040 section 4.8 has c0); the copied length is that of the payload, without the headers."""
    stream, _, _ = hello(context, flags=ENHANCED | CRC)
    stream.send_fpdu(ulpdu)
    copied = b"" if copied_bytes is None else struct.pack(">H", copied_length) + ulpdu[:copied_bytes]
    expect_terminate(context, stream, control, copied)


def send(msn=1, queue=iwarp.SEND_QUEUE, size=16, **arguments):
    return iwarp.untagged(iwarp.SEND, queue, msn, bytes(size), **arguments)


# Name, what is sent, control word of the Terminate, how many bytes of our headers it copies, the length in front of them.
for name, ulpdu, control, copied_bytes, copied_length in (
        ("write-to-bad-stag", iwarp.tagged(iwarp.WRITE, 0xDEADBEEF, 0, bytes(16)), "11 00 03 00", 14, 16),
        # siw copies the read's size into the place of its MSN: 1 here, so that they are the same.
        ("read-of-bad-stag", iwarp.read_request(1, 1, 0, 1, 0xDEADBEEF, 0), "10 00 07 00", 46, 0),
        ("unasked-read-response", iwarp.tagged(iwarp.READ_RESPONSE, 0x77, 0, bytes(16)), "01 00 03 00", 14, 16),
        ("unknown-opcode", iwarp.untagged(8, iwarp.SEND_QUEUE, 1, bytes(8)), "20 06 00 00", None, 0),
        ("wrong-rdmap-version", send(rdmap_version=2), "20 05 00 00", None, 0),
        ("wrong-ddp-version-untagged", send(ddp_version=2), "21 06 00 00", None, 0),
        ("wrong-ddp-version-tagged", iwarp.tagged(iwarp.WRITE, 1, 0, bytes(16), ddp_version=2), "11 04 00 00", None, 0),
        ("send-on-wrong-queue", send(queue=5), "21 01 03 00", 18, 16),
        ("send-with-wrong-msn", send(msn=2), "21 03 03 00", 18, 16),
        ("send-with-wrong-offset", send(offset=8), "21 04 03 00", 18, 16),
        ("send-too-long", send(size=17), "21 02 03 00", 18, 17),
        ("read-with-wrong-msn", iwarp.read_request(2, 1, 0, 16, 1, 0), "21 03 03 00", 18, 0),
        ("short-fpdu", send()[:16], "02 03 00 00", None, 0)):
    case("peer-behaviour/" + name, ulpdu=ulpdu, control=control, copied_bytes=copied_bytes,
         copied_length=copied_length)(bad_frame)


@case("peer-behaviour/zero-length-write-to-bad-stag")
def zero_length_write(context):
    """A zero-length write needs no valid STag: siw takes it."""
    stream, _, _ = hello(context)
    stream.send_fpdu(iwarp.tagged(iwarp.WRITE, 0xDEADBEEF, 0))
    advertise_to_rping(stream, 0x1234, 64)
    expect_equal("opcode of the answer", stream.receive_fpdu().opcode, iwarp.READ_REQUEST)


@case("peer-behaviour/takes-a-terminate")
def takes_a_terminate(context):
    """A Terminate from us: siw closes without a word, rping reports the disconnect."""
    stream, _, job = hello(context)
    stream.send_fpdu(iwarp.terminate(2, 0, 2))
    seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ') or 'nothing'}, then {how}")
    code = job.wait(20)
    context.note(f"rping ended with {code}: {job.text().strip()}")
    expect_equal("what siw sends", (seen, how), (b"", "closed"))


# --- data, and ends in the middle of it


def rounds(stream, size, count, longest):
    """Plays rping's client against `rping -s`; returns what it found out about siw's FPDUs."""
    source, sink = 0x11110000, 0x22220000
    for number in range(count):
        text = (b"rdma-ping-%d: " % number + bytes(range(65, 91)) * (size // 26 + 1))[:size - 1] + b"\0"
        advertise_to_rping(stream, source, size, 2 * number + 1)
        request = stream.receive_fpdu()
        expect_equal("opcode", request.opcode, iwarp.READ_REQUEST)
        sink_stag, sink_to, length, stag, offset = struct.unpack(">IQIIQ", request.payload)
        expect_equal("size of the read", (length, stag, offset), (size, source, 0x1000))
        for at in range(0, size, longest):
            part = text[at:at + longest]
            stream.send_fpdu(iwarp.tagged(iwarp.READ_RESPONSE, sink_stag, sink_to + at, part, at + len(part) == size))
        expect_equal("opcode", stream.receive_fpdu().opcode, iwarp.SEND)
        advertise_to_rping(stream, sink, size, 2 * number + 2)
        received, lengths = bytearray(size), []
        while True:
            segment = stream.receive_fpdu()
            if segment.opcode == iwarp.SEND:
                break
            expect_equal("write's opcode and STag", (segment.opcode, segment.stag), (iwarp.WRITE, sink))
            at = segment.tagged_offset - 0x1000
            received[at:at + len(segment.payload)] = segment.payload
            lengths.append(len(segment.payload))
        expect(bytes(received) == text, f"round {number}: the echo differs")
    return lengths


for longest in (1400, 65000):
    for flags, name in ((ENHANCED, "off"), (ENHANCED | CRC, "on")):
        @case(f"peer-behaviour/rping-by-hand-fpdu-{longest}-crc-{name}", flags=flags, longest=longest)
        def by_hand(context, flags, longest):
            """The bytes of an rping client, written by hand; siw's own FPDUs stay under the segment size."""
            size, count = 65000, 3
            command = short_lines(f"rping -s -v -p {RPING_PORT} -S {size} -C {count}")
            job = context.guest_server(command, RPING_PORT)
            with Stream.connect(context.vm.forwarded(RPING_PORT)) as stream:
                stream.request(flags=flags)
                settle(context)
                lengths = rounds(stream, size, count, longest)
            context.note(f"siw's writes of {size} bytes: {len(lengths)} FPDUs of {max(lengths)} bytes at most")
            job.wait(30)
            expect_pings("rping -s", job.text(), count, "server ping data")
            expect(max(lengths) <= 1446, f"siw sends {max(lengths)} bytes in an FPDU")


@case("peer-behaviour/close-inside-a-frame")
def close_inside_frame(context):
    """Our connection ends inside an FPDU: siw sends nothing more, rping reports the disconnect and ends."""
    stream, _, job = hello(context)
    frame = iwarp.fpdu(iwarp.untagged(iwarp.SEND, iwarp.SEND_QUEUE, 1, bytes(16)), stream.with_crc)
    stream.send(frame[:20])
    settle(context)
    stream.sock.shutdown(1)
    seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ') or 'nothing'}, then {how}")
    code = job.wait(20)
    context.note(f"rping ended with {code}: {job.text().strip()}")
    expect_equal("what siw sends", (seen, how), (b"", "closed"))


@case("peer-behaviour/killed-in-mid-transfer")
def killed(context):
    """rping is killed while we owe it a read response: the connection ends without a Terminate."""
    stream, _, job = hello(context)
    advertise_to_rping(stream, 0x1234, 60)
    expect_equal("opcode", stream.receive_fpdu().opcode, iwarp.READ_REQUEST)
    job.kill()
    seen, how = stream.receive_end()
    context.note(f"received {seen.hex(' ') or 'nothing'}, then {how}")
    expect_equal("what siw sends", (seen, how), (b"", "closed"))


@case("peer-behaviour/first-frame-at-once")
def first_frame_at_once(context):
    """A first FPDU at once after the reply: how often siw lets it sleep until more bytes come."""
    slept = 0
    for _ in range(10):
        job = context.guest_server(f"rping -s -p {RPING_PORT}", RPING_PORT)
        with Stream.connect(context.vm.forwarded(RPING_PORT)) as stream:
            stream.request()
            advertise_to_rping(stream, 0x1234, 60)
            stream.sock.settimeout(2)
            try:
                stream.receive_fpdu()
            except TimeoutError:
                slept += 1
        # Cut off while it waits for its read, rping hangs.
        job.kill()
        job.ended.wait(20)
    context.note(f"{slept} of 10 first FPDUs slept for 2 s")
