"""A TCP proxy between an agent and the coordinator that can cut, hold, half-close and swallow what passes.

It runs on a thread of its own. Whoever watches is told of each message of a plan change just before it goes on and just
after, on that thread; cut(), hold() and swallow() may be called from there or from any other. Without anybody who watches it
forwards whatever passes, TLS too.
"""
import asyncio
import socket
import threading
import time

from plan_messages import Frames


class _Whole:
    """Pieces as they come."""

    def feed(self, data):
        yield data, None


class CutLink:
    def __init__(self, upstream_port, watch=None, listener=None):
        """`watch(kind, when)`: when is "before" or "after". `listener`: a socket to serve; else one on this loopback."""
        self._upstream_port, self._watch = upstream_port, watch
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self._refused_until = self._held_until = self._swallowed_until = 0.0
        self._writers, self._upwards = set(), set()
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._listens.wait()

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self, seconds):
        """Break what is connected and refuse connections for so long."""
        self._refused_until = time.monotonic() + seconds
        self._loop.call_soon_threadsafe(self._abort)

    def hold(self, seconds):
        """Forward nothing for so long, then everything."""
        self._held_until = time.monotonic() + seconds

    def swallow(self, seconds):
        """Lose what passes for so long, without a word; then break what is connected."""
        self._swallowed_until = time.monotonic() + seconds
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._abort)

    def half_close(self):
        """End what goes towards the coordinator, and let what comes from it come."""
        self._loop.call_soon_threadsafe(self._end_upwards)

    def lead_to(self, upstream_port):
        """Lead new connections there, and break what is connected."""
        self._upstream_port = upstream_port
        self._loop.call_soon_threadsafe(self._abort)

    def _end_upwards(self):
        for writer in self._upwards:
            if writer.can_write_eof() and not writer.is_closing():
                writer.write_eof()

    def _abort(self):
        for writer in self._writers:
            writer.transport.abort()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._connected, sock=self._listener))
        self.port = self._listener.getsockname()[1]
        self._listens.set()
        self._loop.run_forever()

    async def _connected(self, reader, writer):
        if time.monotonic() < self._refused_until:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:  # The coordinator is away.
            writer.transport.abort()
            return
        both = {writer, up_writer}
        self._writers |= both
        self._upwards.add(up_writer)
        up, down = (Frames(True), Frames(False)) if self._watch else (_Whole(), _Whole())
        await asyncio.gather(self._pump(reader, up_writer, up), self._pump(up_reader, writer, down))
        self._writers -= both
        self._upwards.discard(up_writer)

    async def _pump(self, reader, writer, frames):
        try:
            while data := await reader.read(1 << 16):
                for piece, kind in frames.feed(data):
                    await self._forward(writer, piece, kind)
        except (OSError, RuntimeError):  # The second: its half was closed.
            pass
        writer.transport.abort()

    async def _forward(self, writer, piece, kind):
        if kind:
            self._watch(kind, "before")
        while (wait := self._held_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if time.monotonic() >= self._swallowed_until:
            writer.write(piece)
            await writer.drain()
        if kind:
            self._watch(kind, "after")
