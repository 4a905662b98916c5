"""The record ring of one process (schema/include/schema/record.hpp), taken as an agent takes it and read when the process
has ended: what a section needs to see with its own eyes."""
import json
import mmap
import os
import socket
import struct

KERNEL, WINDOW = 16, 22
MAGIC = 0x524241544D495254
_HEADER = struct.Struct("<QIIII")  # magic, version, header's bytes, names, slots
_SLOT = struct.Struct("<QQQqIIIHHH7H")
_NAME_BYTES = 128


class Listener:
    """Listens at `path`; take() gives the ring of the process that comes first."""

    def __init__(self, path):
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self._path)
        self._socket.listen(1)

    def take(self, seconds):
        """Raises TimeoutError where none comes. The connection stays open until close()."""
        self._socket.settimeout(seconds)
        connection, _ = self._socket.accept()
        connection.settimeout(seconds)
        frame, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
        return TakenRing(connection, descriptors[0], json.loads(frame[4:]))

    def close(self):
        self._socket.close()
        os.unlink(self._path)


class TakenRing:
    def __init__(self, connection, descriptor, told):
        self.told = told  # What the process says of itself.
        self._connection = connection
        self._memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size, mmap.MAP_SHARED)
        os.close(descriptor)
        magic, _, header_bytes, names, self._slots = _HEADER.unpack_from(self._memory, 0)
        if magic != MAGIC:
            raise ValueError(f"no record ring: it begins with {magic:#x}")
        self._names = header_bytes
        self._first = header_bytes + names * _NAME_BYTES

    def records(self, *kinds):
        """[(kind, begin_ns, end_ns, name)] in the order of their publication. The ring is never emptied here: it must have
        had room for all (TRIMTAB_RING_SLOTS); raises ValueError where it had not."""
        head, = struct.unpack_from("<Q", self._memory, 64)
        dropped, = struct.unpack_from("<Q", self._memory, 192)
        if head > self._slots or dropped:
            raise ValueError(f"{head} records and {dropped} dropped, the ring has {self._slots} slots")
        found = []
        for number in range(head):
            slot = _SLOT.unpack_from(self._memory, self._first + number * _SLOT.size)
            if slot[7] in kinds:
                found.append((slot[7], slot[1], slot[2], self._name(slot[4])))
        return found

    def _name(self, index):
        at = self._names + index * _NAME_BYTES
        length, = struct.unpack_from("<H", self._memory, at + 4)
        return bytes(self._memory[at + 8 : at + 8 + length]).decode(errors="replace")

    def close(self):
        self._memory.close()
        self._connection.close()
