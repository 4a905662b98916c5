"""Frames to and from the agent's Unix socket, without ever waiting.

Every call does what the socket allows at that moment and returns. What cannot be sent is kept up to a bound and then
dropped and counted. A lost, refused or talking-nonsense agent is tried again, at most once a second. So is one whose
socket the job has closed, and a listener that may be no agent of ours (listener.py), of which a line on stderr tells.
Owned by one thread.
"""
import collections
import json
import socket
import struct
import sys
import time

from .descriptors import above_standard_streams, file_of
from .listener import objection

FRAME_BYTES_MAX = 1 << 20
RECONNECT_S = 1.0
# Steps and reports may fill this much; what changes plans may fill as much again, so it is lost last.
UNSENT_BYTES_MAX = 256 << 10
READ_BYTES_PER_POLL = 4 << 20
_SOCKET = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
# Whatever the number has become since it was looked at.
_UNDISTURBED = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_LENGTH = struct.Struct("<I")
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(message):
    body = _ENCODER.encode(message).encode()
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Bytes in, messages out. Raises ValueError on anything that is not a frame of a JSON object."""

    def __init__(self):
        self._bytes = bytearray()

    def feed(self, chunk):
        self._bytes += chunk
        messages = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"frame of {length} bytes, at most {FRAME_BYTES_MAX} are allowed")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            message = json.loads(self._bytes[_LENGTH.size : end].decode())
            del self._bytes[:end]
            if not isinstance(message, dict):
                raise ValueError("frame is not a JSON object")
            messages.append(message)
        return messages


def _new_socket():
    number = above_standard_streams(socket.socket(socket.AF_UNIX, _SOCKET).detach())
    return socket.socket(socket.AF_UNIX, _SOCKET, fileno=number)


class Connection:
    def __init__(self, path, hello, clock=time.monotonic):
        """`hello()` makes the first message of each new connection."""
        self._path, self._hello, self._clock = path, hello, clock
        self._socket = self._file = None
        self._reader = None
        self._greeting = b""  # What is left of this connection's hello.
        self._unsent = collections.deque()  # Whole frames.
        self._unsent_bytes = 0
        self._offset = 0  # How much of the first of them this connection has taken.
        self._next_attempt = float("-inf")
        self._objection = ""  # The last that was told of.
        self.dropped = 0
        self.connected_count = 0

    @property
    def connected(self):
        return self._socket is not None

    @property
    def unsent_bytes(self):
        return self._unsent_bytes

    def send(self, message, important=False):
        """Queue a message; nothing is written before poll(). Drops it, counted, when the queue is full."""
        frame = encode(message)
        bound = UNSENT_BYTES_MAX * (2 if important else 1)
        if len(frame) > FRAME_BYTES_MAX or self._unsent_bytes + len(frame) > bound:
            self.dropped += 1
            return
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)

    def poll(self):
        """Connect, write and read as far as possible. Returns the messages that arrived."""
        self._look()
        if self._socket is None and not self._try_connect():
            return []
        try:
            self._write()
            return self._read()
        except (OSError, ValueError, RecursionError):
            self.disconnect()
            return []

    def disconnect(self):
        self._look()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self):
        """Else the socket would close its number, whosever that is."""
        try:
            self.disconnect()
        except Exception:  # The interpreter ends and has forgotten modules.
            self._socket.detach()

    def _look(self):
        """Gives the socket up where the job has closed it: its number is the job's."""
        if self._socket is not None and file_of(self._socket.fileno()) != self._file:
            self._socket.detach()
            self._socket = None

    def _try_connect(self):
        now = self._clock()
        if now < self._next_attempt:
            return False
        self._next_attempt = now + RECONNECT_S
        try:
            attempt = _new_socket()
        except OSError:
            return False
        try:
            attempt.connect(self._path)  # A Unix socket connects at once or says EAGAIN: its backlog is full.
            refused = objection(attempt, self._path)
        except OSError:
            attempt.close()
            return False
        if refused:
            attempt.close()
            self._tell(refused)
            return False
        self._socket, self._file, self._reader = attempt, file_of(attempt.fileno()), FrameReader()
        self._greeting, self._offset = encode(self._hello()), 0
        self.connected_count += 1
        return True

    def _tell(self, refused):
        told, self._objection = self._objection, refused
        if refused == told:
            return
        try:
            sys.stderr.write(f"trimtab: {refused}\n")
        except Exception:  # The job has closed it, or put something else there.
            pass

    def _write(self):
        try:
            while self._greeting:
                self._greeting = self._greeting[self._socket.send(self._greeting, _UNDISTURBED) :]
            while self._unsent:
                frame = self._unsent[0]
                self._offset += self._socket.send(memoryview(frame)[self._offset :], _UNDISTURBED)
                if self._offset == len(frame):
                    self._unsent.popleft()
                    self._unsent_bytes -= len(frame)
                    self._offset = 0
        except BlockingIOError:
            pass

    def _read(self):
        messages, total = [], 0
        while total < READ_BYTES_PER_POLL:
            try:
                chunk = self._socket.recv(64 << 10, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if not chunk:
                self.disconnect()
                break
            total += len(chunk)
            try:
                messages += self._reader.feed(chunk)
            except (ValueError, RecursionError):
                self.disconnect()  # What came whole before it still counts.
                break
        return messages
