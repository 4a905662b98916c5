"""Which message of a plan change a WebSocket frame between an agent and the coordinator carries.

Numbers are those of schema/wire/agent.proto; frames are those of RFC 6455, unfragmented, as both daemons send them.
"""

TO_AGENT = {4: "command", 5: "propose", 6: "commit", 7: "cancel"}
RANK_EVENT = 6  # In a message from an agent; what the rank said is a field of it:
FROM_RANK = {7: "ack", 8: "refuse", 9: "active", 10: "failed", 11: "exited"}
_MASKED, _LENGTH = 0x80, 0x7F


class Frames:
    """Cuts a stream into pieces to forward: the HTTP head as it comes, then whole frames with the message's kind."""

    def __init__(self, from_agent):
        self._from_agent, self._in_head, self._waiting = from_agent, True, b""

    def feed(self, data):
        """[(bytes, kind or None)]"""
        self._waiting += data
        pieces = []
        if self._in_head:
            end = self._waiting.find(b"\r\n\r\n")
            if end < 0:
                return []
            pieces.append((self._waiting[: end + 4], None))
            self._waiting, self._in_head = self._waiting[end + 4 :], False
        while (frame := _first_frame(self._waiting)) is not None:
            size, payload = frame
            pieces.append((self._waiting[:size], self._kind(payload)))
            self._waiting = self._waiting[size:]
        return pieces

    def _kind(self, payload):
        for number, content in _fields(payload):
            if not self._from_agent:
                return TO_AGENT.get(number)
            if number != RANK_EVENT:
                return None
            return next((FROM_RANK[inner] for inner, _ in _fields(content) if inner in FROM_RANK), None)
        return None


def _first_frame(data):
    """(size, payload) of the frame that `data` begins with; None where it is not all there."""
    if len(data) < 2:
        return None
    length, at = data[1] & _LENGTH, 2
    wider = {126: 2, 127: 8}.get(length, 0)
    if wider:
        length, at = int.from_bytes(data[2 : 2 + wider], "big"), 2 + wider
    key = b""
    if data[1] & _MASKED:
        key, at = data[at : at + 4], at + 4
    if len(data) < at + length:
        return None
    payload = data[at : at + length]
    if key:
        payload = bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))
    return at + length, payload


def _fields(message):
    """(number, bytes) of a protobuf message's length-delimited fields; others are skipped."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _varint(message, at)
            yield tag >> 3, message[at : at + length]
            at += length
        else:
            return  # Not a message: a control frame's text.


def _varint(message, at):
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            break
    return value, at
