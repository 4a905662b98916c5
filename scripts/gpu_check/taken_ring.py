"""The record ring of one process (schema/include/schema/record.hpp), taken and read as an agent does it: what a section
needs to see with its own eyes."""
import collections
import contextlib
import json
import mmap
import os
import socket
import struct
import time

KERNEL, GRAPH, WINDOW = 16, 19, 22
RUNNING = 1  # Of RingHeader::cupti_state: CUPTI records. Others say why it does not.
MAGIC = 0x524241544D495254
_HEADER = struct.Struct("<QIIII")  # magic, version, header's bytes, names, slots
_SLOT = struct.Struct("<QQQqIIIHHH7H")
_NAME_BYTES = 128
_STATE, _TAIL, _DROPPED = 36, 128, 192


class Listener:
    """Listens at `path`; take() gives the ring of the process that comes first."""

    def __init__(self, path):
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self._path)
        self._socket.listen(1)

    def take(self, seconds):
        """Raises TimeoutError where none comes. The connection stays open until leave() or close()."""
        self._socket.settimeout(seconds)
        connection, _ = self._socket.accept()
        connection.settimeout(5)
        frame, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
        return TakenRing(connection, descriptors[0], json.loads(frame[4:]))

    def close(self):
        self._socket.close()
        os.unlink(self._path)


class TakenRing:
    def __init__(self, connection, descriptor, told):
        self.told = told  # What the process says of itself.
        self.counts = collections.Counter()  # By kind, of what drained() has read.
        self._connection = connection
        self._memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size, mmap.MAP_SHARED)
        os.close(descriptor)
        magic, _, header_bytes, names, self._slots = _HEADER.unpack_from(self._memory, 0)
        if magic != MAGIC:
            raise ValueError(f"no record ring: it begins with {magic:#x}")
        self._names = header_bytes
        self._first = header_bytes + names * _NAME_BYTES
        self._tail, = struct.unpack_from("<Q", self._memory, _TAIL)

    def drained(self, *kinds):
        """[(kind, begin_ns, end_ns, name)] that were published since the last call, in order; their slots are free then.
        Raises ValueError where records found no room."""
        dropped, = struct.unpack_from("<Q", self._memory, _DROPPED)
        if dropped:
            raise ValueError(f"{dropped} records found the ring's {self._slots} slots full")
        found = []
        while True:
            at = self._first + self._tail % self._slots * _SLOT.size
            slot = _SLOT.unpack_from(self._memory, at)
            if slot[0] != self._tail + 1:
                break
            self.counts[slot[7]] += 1
            if slot[7] in kinds:
                found.append((slot[7], slot[1], slot[2], self._name(slot[4])))
            struct.pack_into("<Q", self._memory, at, self._tail + self._slots)
            self._tail += 1
        struct.pack_into("<Q", self._memory, _TAIL, self._tail)
        return found

    def state(self):
        """Why nothing comes from CUPTI, or RUNNING."""
        return self._memory[_STATE]

    def _name(self, index):
        at = self._names + index * _NAME_BYTES
        length, = struct.unpack_from("<H", self._memory, at + 4)
        return bytes(self._memory[at + 8 : at + 8 + length]).decode(errors="replace")

    def leave(self):
        """The process is told that its reader is gone. The ring stays readable."""
        self._connection.close()

    def close(self):
        self._memory.close()
        self.leave()


class VisitingAgent:
    """Is there for `there_s` from when the process has come, away for `away_s`, and so on. Call tend() several times a
    second, close() at the end. `windows`: (begin_ns, end_ns, why) in which kernels were not all recorded."""

    def __init__(self, path, there_s, away_s, clock=time.monotonic):
        self._path, self._there_s, self._away_s, self._clock = path, there_s, away_s, clock
        self._listener, self._ring, self._until = Listener(path), None, None
        self.windows, self.counts = [], collections.Counter()

    def tend(self):
        self._read()
        if self._until is None:
            self._wait_for_process()
        elif self._clock() >= self._until and self._listener is not None:
            self._leave()
            self._until = self._clock() + self._away_s
        elif self._clock() >= self._until:
            self._listener, self._until = Listener(self._path), None

    def _wait_for_process(self):
        with contextlib.suppress(TimeoutError):
            ring = self._listener.take(0.05)
            self._let_go()
            self._ring, self._until = ring, self._clock() + self._there_s

    def _read(self):
        if self._ring is not None:
            self.windows += [(begin, end, why) for _, begin, end, why in self._ring.drained(WINDOW)]

    def _let_go(self):
        """It is the same memory each time: what is in it comes by the next mapping."""
        if self._ring is not None:
            self.counts += self._ring.counts
            self._ring.close()

    def _leave(self):
        self._listener.close()
        self._listener = None
        if self._ring is not None:
            self._ring.leave()

    def close(self):
        """Reads the rest."""
        if self._listener is not None:
            self._leave()
        self._read()
        self._let_go()
        self._ring = None
