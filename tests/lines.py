"""A TCP line to a server that can be cut and mended while the server itself goes on."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

__all__ = ["Line"]


class Line:
    """Whoever connects here is connected to `port` there; nobody while it is cut."""

    def __init__(self, port: int) -> None:
        self._there, self._lock = port, threading.Lock()
        self._ends: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.mend()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Also what goes over it at this moment."""
        with self._lock:
            listener, self._listener = self._listener, None
            ends, self._ends = self._ends, []
        for end in [*([listener] if listener else []), *ends]:
            with suppress(OSError):  # shut down first: a close alone does not wake up who waits for it
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", self._there))
            except OSError:
                return  # cut
            with self._lock:
                self._ends += [here, there]
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
