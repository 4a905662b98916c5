"""Nodes on a network of their own: namespaces joined by a switch in this process, which loses, delays, doubles, slows and
cuts what passes, each node's link and direction apart.

Neither namespaces nor interfaces have names outside: they are gone with this process, however it ends. Needs root and
/dev/net/tun.
"""
import contextlib
import ctypes
import dataclasses
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME_BYTES = 2048
QUEUE_BYTES, QUEUE_SECONDS = 16384, 0.1  # what waits for a slow link; the longer of the two

_libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """Why there can be no nodes here; empty: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "a switch needs /dev/net/tun"
    absent = [tool for tool in ("ip", "unshare", "setpriv") if not any(
        os.access(os.path.join(folder, tool), os.X_OK) for folder in os.environ["PATH"].split(":"))]
    if absent:
        return f"nodes need the commands {', '.join(absent)}"
    try:
        namespace = Namespace()
        os.close(namespace.interface())
        namespace.close()
    except OSError as refused:
        return f"this machine makes no network namespaces with interfaces: {refused}"
    return ""


def _checked(result):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Namespace:
    def __init__(self):
        self._failure = None
        maker = threading.Thread(target=self._make)
        maker.start()
        maker.join()
        if self._failure:
            raise self._failure

    def _make(self):
        try:
            _checked(_libc.unshare(CLONE_NEWNET))
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as failure:
            self._failure = failure

    def close(self):
        os.close(self.descriptor)

    @contextlib.contextmanager
    def entered(self):
        """Sockets that this thread makes, and processes that it starts, are there."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _checked(_libc.setns(self.descriptor, CLONE_NEWNET))
            yield
        finally:
            _checked(_libc.setns(own, CLONE_NEWNET))
            os.close(own)

    def ip(self, *words):
        with self.entered():
            subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)

    def interface(self):
        """The descriptor of a new interface eth0: what is sent there is read here."""
        with self.entered():
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
            with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w") as file:
                file.write("1")
        return descriptor


@dataclasses.dataclass(frozen=True)
class Condition:
    """Of one direction of a node's link."""
    rate: float = 0  # bits a second; 0: as fast as it goes
    delay: float = 0  # seconds
    jitter: float = 0  # so much more at most: frames overtake each other
    loss: float = 0
    twice: float = 0
    cut: bool = False

    def joined(self, other):
        rates = [rate for rate in (self.rate, other.rate) if rate]
        return Condition(min(rates, default=0), self.delay + other.delay, self.jitter + other.jitter,
                         1 - (1 - self.loss) * (1 - other.loss), max(self.twice, other.twice), self.cut or other.cut)


class Lane:
    """One direction of a link, with what waits for it."""

    def __init__(self):
        self.condition = Condition()
        self._free_at = 0.0

    def arrivals(self, now, size, chance):
        """When a frame comes out at the other end: never, once or twice."""
        condition = self.condition
        if condition.cut or chance.random() < condition.loss:
            return []
        begin = max(now, self._free_at)
        if condition.rate:
            bits = size * 8
            if begin - now > max(QUEUE_SECONDS, QUEUE_BYTES * 8 / condition.rate):
                return []
            self._free_at = begin = begin + bits / condition.rate
        copies = 2 if chance.random() < condition.twice else 1
        return [begin + condition.delay + chance.random() * condition.jitter for _ in range(copies)]


class Port:
    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.up, self.down = Lane(), Lane()  # from the node, to the node


class Switch:
    """Passes Ethernet frames between ports, on a thread of its own, with chances from a seed."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._ports, self._places = [], {}
        self._due, self._count = [], 0
        self._poll = select.epoll()
        self._wake, self._awoken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)[::-1]
        self._poll.register(self._awoken, select.EPOLLIN)
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def plug(self, descriptor):
        port = Port(descriptor)
        self._ports.append(port)
        self._poll.register(descriptor, select.EPOLLIN)
        return port

    def close(self):
        self._over = True
        os.write(self._wake, b"x")
        self._thread.join()
        self._poll.close()
        for descriptor in (self._wake, self._awoken, *(port.descriptor for port in self._ports)):
            os.close(descriptor)

    def _run(self):
        while not self._over:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else -1
            ready = {descriptor for descriptor, _ in self._poll.poll(wait)}
            for port in [port for port in self._ports if port.descriptor in ready]:
                self._read(port)
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, step, frame, port = heapq.heappop(self._due)
                step(frame, port)

    def _read(self, port):
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                frame = os.read(port.descriptor, FRAME_BYTES)
                self._places[frame[6:12]] = port
                self._send(port.up, frame, self._forward, port)

    def _send(self, lane, frame, then, port):
        for at in lane.arrivals(time.monotonic(), len(frame), self._chance):
            self._count += 1
            heapq.heappush(self._due, (at, self._count, then, frame, port))

    def _forward(self, frame, source):
        known = self._places.get(frame[:6])
        for port in [known] if known else [port for port in self._ports if port is not source]:
            self._send(port.down, frame, self._deliver, port)

    def _deliver(self, frame, port):
        with contextlib.suppress(OSError):  # The interface is down, or its queue is full.
            os.write(port.descriptor, frame)
