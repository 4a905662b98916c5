"""An agent's socket that keeps what processes say on it."""

import socket
import threading

from trimtab.connection import FrameReader


class Agent:
    """`connections`: of each the frames, as they came. `arrived`: of all together (its connection's frames, the frame)."""

    def __init__(self, path):
        self.path = path
        self.connections = []
        self.arrived = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self._threads = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            frames = []
            self.connections.append(frames)
            thread = threading.Thread(target=self._read, args=(connection, frames), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read(self, connection, frames):
        reader = FrameReader()
        with connection:
            while chunk := connection.recv(1 << 16):
                for frame in reader.feed(chunk):
                    frames.append(frame)
                    self.arrived.append((frames, frame))

    def close(self):
        """Once all who connected are gone."""
        for thread in self._threads:
            thread.join(10)
        self._listener.shutdown(socket.SHUT_RDWR)  # Closing alone would leave accept() waiting.
        self._listener.close()
