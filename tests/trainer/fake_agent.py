"""An agent for tests: speaks the socket's protocol, remembers everything, and can be partial to some ranks."""
import json
import os
import selectors
import socket
import struct
import threading
import time


class FakeAgent:
    """Listens at `path` from construction on. One thread serves; the test's thread asks and commands."""

    def __init__(self, path, greeting=None):
        """`greeting`: what each process is told that says hello."""
        self.path, self._greeting = path, greeting
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(16)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._changed = threading.Condition()
        self._buffers, self._rank_of = {}, {}
        self._closing = False
        self.messages = []  # (rank, message) in order of arrival. Guarded by _changed.
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def send(self, message, ranks=None):
        self.send_bytes(frame(message), ranks)

    def send_bytes(self, data, ranks=None):
        with self._changed:
            for connection, rank in self._rank_of.items():
                if ranks is None or rank in ranks:
                    connection.sendall(data)

    def of(self, kind, **fields):
        """All (rank, message) of this type whose fields have these values."""
        with self._changed:
            return [(rank, message) for rank, message in self.messages if message.get("type") == kind
                    and all(message.get(name) == value for name, value in fields.items())]

    def wait(self, ready, what, deadline_s=120):
        """Until ready() is true, re-asked at each arrival."""
        end = time.monotonic() + deadline_s
        while not ready():
            with self._changed:
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"timed out waiting for {what}; last: {self.messages[-5:]}")
                self._changed.wait(min(left, 0.05))

    def wait_from_all(self, kind, ranks, deadline_s=120, **fields):
        wanted = set(range(ranks))
        self.wait(lambda: {rank for rank, _ in self.of(kind, **fields)} >= wanted, f"{kind} {fields}", deadline_s)
        return self.of(kind, **fields)

    def propose(self, epoch, plan, world_size):
        """Propose and wait for everybody's answer; returns the step that none is past."""
        self.send({"type": "plan_propose", "epoch": epoch, "plan": plan})
        answers = self.wait_from_all("plan_ack", world_size, epoch=epoch)
        return max(message["step"] for _, message in answers)

    def change_plan(self, epoch, plan, world_size):
        """A whole live plan change, up to plan_active from every rank."""
        step = self.propose(epoch, plan, world_size)
        self.send({"type": "plan_commit", "epoch": epoch, "step": step + 2})
        return self.wait_from_all("plan_active", world_size, epoch=epoch)

    def wait_for_step(self, step):
        self.wait(lambda: any(m["step"] >= step for _, m in self.of("step")), f"step {step}")

    def close(self):
        self._closing = True
        self._wake.send(b"x")
        self._thread.join()
        for connection in list(self._buffers):
            connection.close()
        for end in (self._listener, self._wake, self._woken, self._selector):
            end.close()
        os.unlink(self.path)

    def _serve(self):
        while not self._closing:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    self._buffers[connection] = b""
                    self._selector.register(connection, selectors.EVENT_READ)
                elif key.fileobj in self._buffers:
                    self._read(key.fileobj)

    def _read(self, connection):
        try:
            chunk = connection.recv(1 << 16)
        except OSError:
            chunk = b""
        with self._changed:
            if not chunk:
                self._selector.unregister(connection)
                self._rank_of.pop(connection, None)
                del self._buffers[connection]
                connection.close()
            else:
                self._take(connection, chunk)
            self._changed.notify_all()

    def _take(self, connection, chunk):
        data = self._buffers[connection] + chunk
        while len(data) >= 4:
            (length,) = struct.unpack_from("<I", data)
            if len(data) < 4 + length:
                break
            message = json.loads(data[4 : 4 + length])
            data = data[4 + length :]
            if message["type"] == "hello":
                self._rank_of[connection] = message["rank"]
                if self._greeting:
                    connection.sendall(frame(self._greeting))
            self.messages.append((self._rank_of.get(connection), message))
        self._buffers[connection] = data


def frame(message):
    body = json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body
