"""An agent that has nothing but costs: it sends batches at once, sends some twice, and all that nobody acknowledged over each new
connection, as schema/wire/agent.proto asks of agents. It lives through all of a cluster's faults."""
import base64
import json
import os
import socket
import threading
import time

from plan_messages import _fields, _first_frame, _varint

NODE = "wire"
FINGERPRINT = {"device": {"kind": "cpu", "model": "of histories"}}
HEARTBEAT_S = 1.0
AGAIN_S = 2.0  # what nobody acknowledged for so long is sent again
PAUSE_S = 0.15  # before it connects again: who introduces itself too often is refused


def _number(value):
    text = b""
    while value > 0x7F:
        text += bytes([value & 0x7F | 0x80])
        value >>= 7
    return text + bytes([value])


def message(**fields):
    """A protobuf message: f3=7 is field 3. Numbers, texts and messages."""
    text = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            text += _number(number << 3) + _number(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            text += _number(number << 3 | 2) + _number(len(data)) + data
    return text


def hello(instance):
    return message(f1=message(f1=1, f2="histories", f3=NODE, f4=instance, f5=1, f6=1 << 30, f7=json.dumps(FINGERPRINT), f10="nobody"))


def batch(number, range_name):
    """One range that took a nanosecond."""
    entry = message(f1=json.dumps({"kind": "range", "subject": range_name}), f2="1;1;1;1;1;1;0:1", f3="passive")
    return message(f3=message(f1=number, f2=json.dumps(FINGERPRINT), f3=entry))


def frame(payload):
    """Binary, masked with zeros as it may be."""
    length = len(payload)
    head = bytes([0x82, 0x80 | length]) if length < 126 else bytes([0x82, 0x80 | 126]) + length.to_bytes(2, "big")
    return head + bytes(4) + payload


def acknowledged(payload):
    """(number, why it cannot ever be stored) of a BatchAck; None of another message."""
    for field, content in _fields(payload):
        if field == 3 and content[:1] == b"\x08":
            return _varint(content, 1)[0], dict(_fields(content)).get(2, b"").decode()
    return None


class WireAgent:
    def __init__(self, link):
        self.node, self._link = NODE, link
        self._instance = os.urandom(8).hex()
        self._waiting, self._fresh, self._last = {}, [], 0  # number: (range's name, whom to tell)
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, range_name, twice, tell):
        """Returns at once; `tell(why not)` is called once it is acknowledged, on the agent's thread."""
        with self._lock:
            self._last += 1
            self._waiting[self._last] = range_name, tell
            self._fresh += [self._last] * (2 if twice else 1)

    def is_idle(self):
        with self._lock:
            return not self._waiting

    def close(self):
        self._over.set()
        self._thread.join()

    def _run(self):
        while not self._over.wait(PAUSE_S):
            try:
                with socket.create_connection(("127.0.0.1", self._link.port), timeout=5) as connection:
                    self._serve(connection)
            except OSError:
                pass

    def _serve(self, connection):
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall(f"GET /v1/agent HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._some(connection)
        data = data.partition(b"\r\n\r\n")[2]
        connection.sendall(frame(hello(self._instance)))
        with self._lock:
            self._fresh = sorted(self._waiting)
        beat, again, welcome = time.monotonic(), time.monotonic() + AGAIN_S, False
        connection.settimeout(0.02)
        while not self._over.is_set():
            while (found := _first_frame(data)) is not None:
                welcome = True
                data = data[found[0] :]
                self._take(found[1])
            if time.monotonic() > again:
                again = time.monotonic() + AGAIN_S
                with self._lock:
                    self._fresh = sorted(self._waiting)
            if welcome:
                self._send_fresh(connection)
                if time.monotonic() > beat:
                    beat = time.monotonic() + HEARTBEAT_S
                    connection.sendall(frame(message(f2=message(f1=time.monotonic_ns()))))
            try:
                data += self._some(connection)
            except TimeoutError:
                continue

    @staticmethod
    def _some(connection):
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        return data

    def _send_fresh(self, connection):
        with self._lock:
            numbers, self._fresh = self._fresh, []
            texts = [frame(batch(number, self._waiting[number][0])) for number in numbers if number in self._waiting]
        connection.sendall(b"".join(texts))

    def _take(self, payload):
        if (ack := acknowledged(payload)) is None:
            return
        with self._lock:
            _, tell = self._waiting.pop(ack[0], (None, None))
        if tell:
            tell(ack[1])
