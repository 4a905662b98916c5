"""Who is gone: one connection from every rank to rank 0, watched by a thread.

A rank that waits for a dead peer inside a collective sees, at best, an error that names a socket. Here the end of a
process is the end of its connection, rank 0 tells everybody whose it was, and nobody blames a survivor that only went
because of the first. A machine that vanishes is found by TCP keep-alive (KEEPALIVE_S).

A rank whose plan failed it can ask everybody to start anew together (retreat.py) instead.

Threads: start(), close(), announce() and await_verdict() on the main thread; a thread `liveness` owns the sockets'
reading and calls `on_lost(rank, why)` or `on_retreat(why)`, either at most once. Both are expected to end the program.
"""
import secrets
import selectors
import socket
import threading

KEEPALIVE_S = 3
_STORE_KEY = "trimtab/liveness"


class Liveness:
    def __init__(self, rank, world_size, on_lost, on_retreat):
        self._rank, self._world_size, self._on_lost, self._on_retreat = rank, world_size, on_lost, on_retreat
        self._selector = selectors.DefaultSelector()
        self._connections = {}  # Rank -> socket. Guarded by _lock.
        self._said_goodbye = set()  # The watching thread's.
        self._told = False  # The watching thread's.
        self._unread = {}  # The watching thread's: socket -> bytes of an incomplete line.
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._verdict = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._thread = None

    def start(self, store, address, timeout_s):
        """Connect everybody. Returns when this rank is connected; raises OSError where it cannot."""
        if self._world_size == 1:
            return
        if self._rank == 0:
            self._accept_all(store, address, timeout_s)
        else:
            host, port, token = store.get(_STORE_KEY).decode().rsplit(" ", 2)
            connection = socket.create_connection((host, int(port)), timeout=timeout_s)
            connection.sendall(f"hello {self._rank} {token}\n".encode())
            self._add(0, connection)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._watch, name="liveness", daemon=True)
        self._thread.start()

    def _accept_all(self, store, address, timeout_s):
        token = secrets.token_hex(16)
        with socket.create_server((address, 0), backlog=self._world_size) as listener:
            listener.settimeout(timeout_s)
            store.set(_STORE_KEY, f"{address} {listener.getsockname()[1]} {token}")
            while len(self._connections) < self._world_size - 1:
                connection, _ = listener.accept()
                connection.settimeout(timeout_s)
                words = _first_line(connection).split()
                if len(words) == 3 and words[0] == "hello" and words[1].isdigit() and words[2] == token:
                    self._add(int(words[1]), connection)
                else:
                    connection.close()

    def _add(self, rank, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, value in (("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        connection.settimeout(1.0)  # A peer that does not read its few lines must not hold up the news.
        self._connections[rank] = connection
        self._selector.register(connection, selectors.EVENT_READ, rank)

    def await_verdict(self, timeout_s):
        """After a collective failed: give the thread time to learn whose fault it was.

        on_lost may end the process; where it returns, so does this, with True (False: nothing was learnt in time)."""
        return self._verdict.wait(timeout_s)

    def announce(self, message):
        """Tell the others that this rank is about to fail, and why."""
        text = _one_line(message)
        self._tell_all(f"gone {self._rank} {text}\n" if self._rank == 0 else f"failed {text}\n")

    def call_retreat(self, message):
        """Ask all others to start anew, which they do at once; so must the caller."""
        self._tell_all(f"retreat {_one_line(message)}\n")

    def close(self):
        """A clean end: the others must not take the closed connection for a death."""
        if self._thread is None:
            return
        self._closing.set()
        self._tell_all("bye\n")
        self._wake.send(b"x")
        self._thread.join()
        self._thread = None
        for end in (*self._connections.values(), self._wake, self._woken, self._selector):
            end.close()

    def _tell_all(self, line, but=None):
        with self._lock:
            for rank, connection in self._connections.items():
                try:
                    if rank != but:
                        connection.sendall(line.encode())
                except OSError:
                    pass  # It is gone itself; its own end says so.

    def _watch(self):
        while not self._closing.is_set():
            for key, _ in self._selector.select():
                if key.data is not None and not self._closing.is_set():
                    self._read(key.data, key.fileobj)

    def _read(self, rank, connection):
        try:
            chunk = connection.recv(4096)
        except OSError as error:
            chunk, why = b"", f"its connection failed: {error.strerror or error}"
        else:
            why = "its connection closed without goodbye"
        if not chunk:
            self._selector.unregister(connection)
            if rank not in self._said_goodbye:
                self._lost(rank, why)
            return
        *lines, rest = (self._unread.pop(rank, b"") + chunk).split(b"\n")
        self._unread[rank] = rest[-1024:]
        for line in lines:
            self._understand(rank, line.decode(errors="replace"))

    def _understand(self, rank, line):
        kind, _, text = line.partition(" ")
        if kind == "bye":
            self._said_goodbye.add(rank)
        elif kind == "failed":
            self._lost(rank, text)
        elif kind == "retreat" and not self._told:
            self._told = True
            if self._rank == 0:
                self._tell_all(f"retreat {text}\n", but=rank)
            self._on_retreat(text)
        elif kind == "gone" and rank == 0:
            number, _, why = text.partition(" ")
            self._lost(int(number) if number.isdigit() else 0, why)

    def _lost(self, rank, why):
        if self._told or rank == self._rank:  # What rank 0 passes on comes back to the rank that announced it.
            return
        self._told = True
        if self._rank == 0:
            self._tell_all(f"gone {rank} {why}\n")
        self._on_lost(rank, why)
        self._verdict.set()  # Not before: the main thread, awaiting it, would end the process without the reason.


def _one_line(message):
    return " ".join(message.split())[:400]


def _first_line(connection):
    """A short greeting, or nothing: whoever connects here may be anybody."""
    line = b""
    try:
        while not line.endswith(b"\n") and len(line) < 256:
            byte = connection.recv(1)
            if not byte:
                return ""
            line += byte
    except OSError:
        return ""
    return line.decode(errors="replace")
