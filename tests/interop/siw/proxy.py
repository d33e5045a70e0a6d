"""A man in the middle who reads FPDUs: what passes can be changed, and both directions are remembered."""

import socket
import threading

import iwarp
from iwarp import CRC, Ended, Stream


class Proxy:
    """Takes one connection and carries it to `target`, a port of 127.0.0.1.

    `change(from_initiator, number, segment)` is asked for each segment (numbers count from 0 in each direction). It
    returns None to pass it as it is, or the bytes to send instead, frame and CRC included.
    """

    def __init__(self, target, change, timeout_s=30):
        self.target, self.change, self.timeout_s = target, change, timeout_s
        self.seen = {True: [], False: []}
        self.start = {}
        self.streams = []
        self.errors = []
        self.changed = threading.Event()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self):
        self.listener.close()
        for stream in self.streams:
            stream.close()

    def terminates(self, from_initiator):
        """The payloads of the Terminates that were sent in one direction."""
        return [s.payload for s in self.seen[from_initiator] if s.opcode == iwarp.TERMINATE]

    def wait(self, timeout_s):
        """Waits until both directions have ended."""
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def _serve(self):
        try:
            left = Stream(self.listener.accept()[0], self.timeout_s)
            self.streams.append(left)
            right = Stream.connect(self.target, timeout_s=self.timeout_s)
            self.streams.append(right)
            self.start[True] = self._pass_start(left, right)
            self.start[False] = self._pass_start(right, left)
            left.with_crc = right.with_crc = bool((self.start[True][1] | self.start[False][1]) & CRC)
            back = threading.Thread(target=self._pass_frames, args=(right, left, False), daemon=True)
            back.start()
            self._pass_frames(left, right, True)
            back.join(self.timeout_s)
        except (OSError, Ended) as error:
            self.errors.append(f"{type(error).__name__}: {error}")
        finally:
            for stream in self.streams:
                stream.close()

    def _pass_start(self, source, sink):
        frame = source.receive_start()
        sink.send(iwarp.start_frame(*frame))
        return frame

    def _pass_frames(self, source, sink, from_initiator):
        number = 0
        try:
            while True:
                segment = source.receive_fpdu()
                self.seen[from_initiator].append(segment)
                instead = self.change(from_initiator, number, segment)
                if instead is not None:
                    self.changed.set()
                sink.send(iwarp.fpdu(segment.raw, source.with_crc) if instead is None else instead)
                number += 1
        except (Ended, OSError, iwarp.CrcError) as error:
            self.errors.append(f"{'to responder' if from_initiator else 'to initiator'}: {type(error).__name__}: {error}")
        try:
            sink.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
