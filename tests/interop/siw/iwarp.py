"""The bytes of iWARP, as few as the tests need: MPA start-up, FPDUs without markers, DDP and RDMAP headers.

Written for the tests only and from the RFCs, so that it is an opinion of its own. Slow on purpose: plain.
Numbers are in RFC 5044 (MPA), RFC 5041 (DDP), RFC 5040 (RDMAP) and RFC 6581 (enhanced start-up).
"""

import socket
import struct
from dataclasses import dataclass

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
MARKERS, CRC, REJECT, ENHANCED = 0x80, 0x40, 0x20, 0x10

WRITE, READ_REQUEST, READ_RESPONSE, SEND, TERMINATE = 0, 1, 2, 3, 7
SEND_QUEUE, READ_QUEUE, TERMINATE_QUEUE = 0, 1, 2

# Bits of the two 16-bit words of enhanced start-up.
PEER_TO_PEER, RTR_SEND = 0x8000, 0x4000
RTR_WRITE, RTR_READ = 0x8000, 0x4000


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def start_frame(key, flags, revision, private_data=b"", length=None):
    """An MPA request or reply; `length` lies about the length of the private data."""
    length = len(private_data) if length is None else length
    return key + bytes([flags, revision]) + struct.pack(">H", length) + private_data


def enhanced(ird, ord_, private_data=b""):
    """The private data of a revision-2 frame."""
    return struct.pack(">HH", ird, ord_) + private_data


def fpdu(ulpdu, with_crc=True, flip=0):
    """Frames a ULPDU; `flip` is exclusive-ored into the CRC to make it wrong."""
    body = struct.pack(">H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    # The CRC travels with its least significant byte first, as RFC 3385 and iSCSI have it.
    return body + struct.pack("<I", (crc32c(body) if with_crc else 0) ^ flip)


def tagged(opcode, stag, offset, payload=b"", last=True, ddp_version=1, rdmap_version=1):
    control = 0x80 | (0x40 if last else 0) | ddp_version
    return struct.pack(">BBIQ", control, rdmap_version << 6 | opcode, stag, offset) + payload


def untagged(opcode, queue, msn, payload=b"", offset=0, last=True, ddp_version=1, rdmap_version=1):
    control = (0x40 if last else 0) | ddp_version
    return struct.pack(">BBIIII", control, rdmap_version << 6 | opcode, 0, queue, msn, offset) + payload


def read_request(msn, sink_stag, sink_offset, size, source_stag, source_offset):
    payload = struct.pack(">IQIIQ", sink_stag, sink_offset, size, source_stag, source_offset)
    return untagged(READ_REQUEST, READ_QUEUE, msn, payload)


def terminate(layer, kind, code):
    """A Terminate without copied headers, nibbles where RFC 5040 section 4.8 has them."""
    return untagged(TERMINATE, TERMINATE_QUEUE, 1, bytes([layer << 4 | kind, code, 0, 0]))


@dataclass
class Segment:
    """A DDP segment that was received."""

    raw: bytes

    @property
    def is_tagged(self):
        return bool(self.raw[0] & 0x80)

    @property
    def is_last(self):
        return bool(self.raw[0] & 0x40)

    @property
    def opcode(self):
        return self.raw[1] & 0xF

    @property
    def stag(self):
        return struct.unpack_from(">I", self.raw, 2)[0]

    @property
    def tagged_offset(self):
        return struct.unpack_from(">Q", self.raw, 6)[0]

    @property
    def queue(self):
        return struct.unpack_from(">I", self.raw, 6)[0]

    @property
    def msn(self):
        return struct.unpack_from(">I", self.raw, 10)[0]

    @property
    def message_offset(self):
        return struct.unpack_from(">I", self.raw, 14)[0]

    @property
    def payload(self):
        return self.raw[14:] if self.is_tagged else self.raw[18:]


class Ended(Exception):
    """The peer ended the connection; the text is how: `closed` or `reset`."""


class CrcError(Exception):
    """A CRC of the peer is wrong."""


class Stream:
    """A TCP connection that speaks MPA."""

    def __init__(self, sock, timeout_s=20):
        self.sock = sock
        self.sock.settimeout(timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.with_crc = False

    @classmethod
    def connect(cls, port, address="127.0.0.1", timeout_s=20):
        return cls(socket.create_connection((address, port), timeout_s), timeout_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def send_fpdu(self, ulpdu, flip=0):
        self.send(fpdu(ulpdu, self.with_crc, flip))

    def receive(self, size):
        """Exactly `size` bytes."""
        parts = []
        while size:
            try:
                data = self.sock.recv(size)
            except ConnectionError as error:
                raise Ended("reset") from error
            if not data:
                raise Ended("closed")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def receive_start(self):
        """An MPA request or reply: (key, flags, revision, private data)."""
        head = self.receive(20)
        flags, revision, length = struct.unpack(">BBH", head[16:])
        return head[:16], flags, revision, self.receive(length)

    def receive_fpdu(self):
        """The next segment; its CRC has been checked when CRC is on."""
        head = self.receive(2)
        length = struct.unpack(">H", head)[0]
        rest = self.receive(length + (-(length + 2) % 4) + 4)
        body, crc = head + rest[:-4], struct.unpack("<I", rest[-4:])[0]
        if self.with_crc and crc != crc32c(body):
            raise CrcError(f"CRC {crc:08x} received, {crc32c(body):08x} computed")
        return Segment(body[2:2 + length])

    def receive_end(self):
        """Everything until the peer ends: (bytes, `closed`, `reset`, or `silent` when the time is up)."""
        data = b""
        while True:
            try:
                data += self.receive(1)
            except Ended as how:
                return data, str(how)
            except TimeoutError:
                return data, "silent"

    def request(self, flags=ENHANCED, revision=2, private_data=None):
        """Plays the initiator. Returns the reply as `receive_start` does."""
        if private_data is None:
            private_data = enhanced(1, 1) if flags & ENHANCED else b""
        self.send(start_frame(REQUEST_KEY, flags, revision, private_data))
        reply = self.receive_start()
        self.with_crc = bool(reply[1] & CRC)
        return reply

    def reply(self, flags=None, revision=None, private_data=None):
        """Plays the responder. Returns the request; the reply echoes what is not given."""
        request = self.receive_start()
        flags = request[1] if flags is None else flags
        revision = request[2] if revision is None else revision
        if private_data is None:
            private_data = enhanced(1, 1) if flags & ENHANCED else b""
        self.send(start_frame(REPLY_KEY, flags, revision, private_data))
        self.with_crc = bool((flags | request[1]) & CRC)
        return request
