"""Captures written by hand: an iWARP connection as a pcap file, good or with one fault."""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "siw"))

import iwarp  # noqa: E402

MARKER_SPACING = 512
INITIATOR, RESPONDER = ("10.0.0.1", 40000), ("10.0.0.2", 7174)
SYN, ACK, PSH, FIN = 0x02, 0x10, 0x08, 0x01


class Capture:
    """Collects the packets of one TCP connection."""

    def __init__(self):
        self.packets = []
        self.next = {INITIATOR: 1000, RESPONDER: 5000}
        self.packet(INITIATOR, SYN)
        self.packet(RESPONDER, SYN | ACK)
        self.packet(INITIATOR, ACK)

    def packet(self, source, flags, data=b""):
        target = RESPONDER if source == INITIATOR else INITIATOR
        acknowledged = self.next[target] if flags & ACK else 0
        tcp = struct.pack(">HHIIBBHHH", source[1], target[1], self.next[source], acknowledged, 5 << 4, flags, 65535, 0, 0)
        addresses = [bytes(map(int, end[0].split("."))) for end in (source, target)]
        pseudo = addresses[0] + addresses[1] + struct.pack(">HH", 6, len(tcp) + len(data))
        tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp + data)) + tcp[18:]
        head = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), len(self.packets), 0x4000, 64, 6, 0)
        ip = head + addresses[0] + addresses[1]
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        self.packets.append(ip + tcp + data)
        self.next[source] += len(data) + (1 if flags & (SYN | FIN) else 0)

    def data(self, source, data, segment=1460):
        for at in range(0, len(data), segment):
            self.packet(source, ACK | PSH, data[at:at + segment])

    def file(self):
        """A pcap file whose packets begin with the IP header (link type 101)."""
        out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101)
        for number, packet in enumerate(self.packets):
            out += struct.pack("<IIII", 1700000000, number * 100, len(packet), len(packet)) + packet
        return out


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def fpdus_with_markers(ulpdus):
    """Frames with a marker at each 512th byte of the stream, which the CRC covers (RFC 5044 sections 4.3 and 4.4)."""
    frames, position = [], 0
    for ulpdu in ulpdus:
        body = struct.pack(">H", len(ulpdu)) + ulpdu
        body += bytes(-len(body) % 4)
        out, start = b"", position
        for at in range(0, len(body) + 4, 4):
            if (position + len(out)) % MARKER_SPACING == 0:
                # A marker in front of a frame belongs to it and says 0; the frame then begins behind the marker.
                out += struct.pack(">HH", 0, position + len(out) - start)
                start += 4 if at == 0 else 0
            out += body[at:at + 4]
        out += struct.pack("<I", iwarp.crc32c(out))
        frames.append(out)
        position += len(out)
    return frames


def messages():
    """Segments of every kind that tshark knows, of many lengths."""
    ulpdus = [iwarp.untagged(iwarp.SEND, iwarp.SEND_QUEUE, 1, bytes(16)),
              iwarp.read_request(1, 7, 0x1000, 3000, 9, 0x2000)]
    offset = 0
    for length in (1, 2, 3, 4, 64, 200, 400, 1380):
        ulpdus.append(iwarp.tagged(iwarp.WRITE, 0x1234, offset, (bytes(range(256)) * 6)[:length]))
        offset += length
    return ulpdus


def connection(with_crc=True, with_markers=False, fault=None):
    """The bytes of a capture. `fault`: None, `bad-crc`, `truncated`, `missing`, `garbage`,
    `unknown-opcode`, `no-start`; or what is none: `sent again`, `sent again with the next`, `sent again in part`,
    `acknowledged before`."""
    capture = Capture()
    flags = iwarp.ENHANCED | (iwarp.CRC if with_crc else 0) | (iwarp.MARKERS if with_markers else 0)
    if fault != "no-start":
        capture.data(INITIATOR, iwarp.start_frame(iwarp.REQUEST_KEY, flags, 2, iwarp.enhanced(1, 1)))
        capture.data(RESPONDER, iwarp.start_frame(iwarp.REPLY_KEY, flags, 2, iwarp.enhanced(1, 1)))
    ulpdus = messages()
    if fault == "unknown-opcode":
        ulpdus.append(iwarp.untagged(8, iwarp.SEND_QUEUE, 2, bytes(8)))
    if with_markers:
        frames = fpdus_with_markers(ulpdus)
    else:
        frames = [iwarp.fpdu(ulpdu, with_crc) for ulpdu in ulpdus]
    if fault == "bad-crc":
        frames[4] = frames[4][:-1] + bytes([frames[4][-1] ^ 1])
    if fault == "garbage":
        frames[4] = b"\xff" * len(frames[4])
    for number, frame in enumerate(frames):
        if fault == "truncated" and number == len(frames) - 1:
            frame = frame[:-8]
        if fault == "missing" and number == 3:
            capture.next[INITIATOR] += len(frame)
            continue
        capture.data(INITIATOR, frame)
        if fault == "sent again" and number == 4:
            capture.next[INITIATOR] -= len(frame)
            capture.data(INITIATOR, frame)
        if fault == "sent again with the next" and number == 4:
            capture.next[INITIATOR] -= len(frame)
            capture.data(INITIATOR, frame + frames[number + 1])
            capture.next[INITIATOR] -= len(frames[number + 1])
        if fault == "acknowledged before" and number == 4:
            capture.packet(RESPONDER, ACK)
            capture.packets[-2:] = capture.packets[:-3:-1]
        if fault == "sent again in part" and number == 4:
            capture.next[INITIATOR] -= len(frame) - 8
            capture.data(INITIATOR, frame[8:] + frames[number + 1][:12])
            capture.next[INITIATOR] -= 12
    answer = messages()[:1]
    capture.data(RESPONDER, fpdus_with_markers(answer)[0] if with_markers else iwarp.fpdu(answer[0], with_crc))
    capture.packet(INITIATOR, FIN | ACK)
    capture.packet(RESPONDER, FIN | ACK)
    capture.packet(INITIATOR, ACK)
    return capture.file()
