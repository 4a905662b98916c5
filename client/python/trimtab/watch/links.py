"""What this process's own TCP connections show of its links, from the kernel's counters. Nothing is sent for it.

Gloo, and NCCL over sockets, keep connections between ranks. The kernel counts for each how long data was on its way
(`busy`) and how much of it arrived. Their quotient is what the link gives while it is used. Time in which the receiver
took nothing (its window was full) is taken out, since that is the other process's and not the link's.

Linux: struct tcp_info of <linux/tcp.h>, as of Linux 4.10. Main thread only. Never raises.
"""
import ctypes
import os
import socket
import struct
import sys

# By the C library: a socket object of the process's own descriptor would set its timeout, and close it when it goes.
_libc = ctypes.CDLL(None)
_ADDRESS_BYTES = 128
_TCP_INFO = 11
# bytes_acked at 120; busy_time, rwnd_limited, sndbuf_limited (microseconds) at 168.
_ACKED = struct.Struct("=Q")
_ACKED_AT, _BUSY_AT, _BYTES = 120, 168, 192
_BUSY = struct.Struct("=QQQ")
_ESTABLISHED = 1
LINKS_MOST = 64


class Links:
    """Counters of this process's connections to other hosts."""

    def __init__(self, directory="/proc/self/fd"):
        self._directory = directory
        self._known = {}  # descriptor: (what it is, its (own, other) addresses or None)
        self._begun = {}  # (descriptor, what it is): counters when it was first seen

    def sample(self):
        """[{"from": own address, "to": the other's, "bytes", "busy_ns"}] since the first sample; the busiest, at most LINKS_MOST."""
        totals = {}
        for descriptor, identity, ends in self._connections():
            counters = _counters(descriptor)
            if counters is None:
                continue
            first = self._begun.setdefault((descriptor, identity), counters)
            total = totals.setdefault(ends, {"from": ends[0], "to": ends[1], "bytes": 0, "busy_ns": 0})
            total["bytes"] += max(0, counters[0] - first[0])
            total["busy_ns"] += max(0, counters[1] - first[1]) * 1000
        busiest = sorted(totals.values(), key=lambda total: -total["bytes"])
        return [total for total in busiest[:LINKS_MOST] if total["bytes"] > 0]

    def _connections(self):
        try:
            names = os.listdir(self._directory)
        except OSError:
            return
        seen = {}
        for name in names:
            try:
                descriptor, identity = int(name), os.readlink(f"{self._directory}/{name}")
            except (OSError, ValueError):
                continue
            if not identity.startswith("socket:"):
                continue
            known = self._known.get(descriptor)
            ends = known[1] if known is not None and known[0] == identity else _ends(descriptor)
            seen[descriptor] = (identity, ends)
            if ends is not None:
                yield descriptor, identity, ends
        self._known = seen
        self._begun = {key: value for key, value in self._begun.items() if seen.get(key[0], ("",))[0] == key[1]}


def _ends(descriptor):
    """The own and the other host's address; None for what is no TCP connection to one."""
    own, other = _address(_libc.getsockname, descriptor), _address(_libc.getpeername, descriptor)
    if own is None or other is None or own == other or other.startswith("127.") or other == "::1":
        return None
    return own, other


def _address(ask, descriptor):
    """None for what has no internet address: it is local, or connected no more."""
    room, length = ctypes.create_string_buffer(_ADDRESS_BYTES), ctypes.c_uint32(_ADDRESS_BYTES)
    if ask(descriptor, room, ctypes.byref(length)) != 0:
        return None
    family = int.from_bytes(room.raw[:2], sys.byteorder)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, room.raw[4:8])
    if family == socket.AF_INET6:
        text = socket.inet_ntop(family, room.raw[8:24])
        return text[7:] if text.startswith("::ffff:") else text
    return None


def _counters(descriptor):
    """(bytes that arrived, microseconds in which the link was at work); None where the kernel does not say."""
    info, length = ctypes.create_string_buffer(_BYTES), ctypes.c_uint32(_BYTES)
    if _libc.getsockopt(descriptor, socket.IPPROTO_TCP, _TCP_INFO, info, ctypes.byref(length)) != 0:
        return None
    if length.value < _BYTES or info.raw[0] != _ESTABLISHED:
        return None
    busy, window_full, _ = _BUSY.unpack_from(info.raw, _BUSY_AT)
    return _ACKED.unpack_from(info.raw, _ACKED_AT)[0], max(0, busy - window_full)
