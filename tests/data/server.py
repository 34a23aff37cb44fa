"""A real HTTP server in a thread that can misbehave."""

import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `files` by name. What it should do wrong is set on it; `asked` collects (name, Range header)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.asked = {}, []
        self.ranges = True  # understands Range
        self.states_length = True
        self.status = None  # answers this, whatever is asked
        self.cut_after = None  # closes the connection after so many bytes of an answer
        self.reset = False  # …and with a reset rather than an end
        self.silent = 0.0  # seconds before it answers
        self.shift = 0  # sends a range that starts so many bytes from what was asked

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        pass


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server, name, asked = self.server, self.path[1:], self.headers.get("Range")
        server.asked.append((name, asked))
        time.sleep(server.silent)
        content, start = server.files.get(name, b""), 0
        status = server.status or (200 if name in server.files else 404)
        if status == 200 and asked and server.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-")) + server.shift
            status = 206 if start < len(content) else 416
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        body = content[start:] if status in (200, 206) else b"<html>an error</html>"
        if server.states_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut_after])
        if server.reset:
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


@contextmanager
def serving():
    """A server, for as long as it is needed."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
