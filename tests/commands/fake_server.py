"""A scripted server on a real socket: what `strata chat` and `strata demo` talk to in tests, without a model.

Run as a program (`python -m tests.commands.fake_server JSON`) it behaves like `strata serve`: it prints its address,
serves until SIGTERM and exits 0. The JSON are the fields of Script.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Script:
    """What the server answers. `ending`: "done", "error" (an error event), "cut" (the connection ends), "unfinished"
    ([DONE] without a finish reason), "hold" (nothing more until the client leaves)."""

    deltas: tuple[str, ...] = ("Hello", " there", ".")
    ending: str = "done"
    finish_reason: str = "stop"
    status: int = 200
    error_body: str = '{"error": {"message": "the queue is full", "type": "server_error"}}'
    models_body: str = '{"data": [{"id": "fake-model"}]}'
    timings: dict[str, float] | None = field(
        default_factory=lambda: {"prompt_n": 100, "prompt_ms": 1000.0, "predicted_n": 4, "predicted_ms": 2000.0}
    )
    link_bytes: int = 3 * 1024 * 1024
    ring_entries: int = 7
    num_drafts: int = 8
    num_rooms: int = 2
    needs: dict[str, str] = field(default_factory=dict)  # variables that must be set so
    num_maps_while_serving: int = 0
    exit_code: int = 0
    announces: bool = True
    ignores_sigterm: bool = False


class FakeServer:
    """The running server: its address, and what it was sent."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.client_left = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def card(self) -> dict[str, Any]:
        """GET /debug/card: counters that have moved by the script's numbers once for all replies together."""
        moved = 1 if self.bodies else 0
        return {
            "rows": [
                {"owner": "weights token_embd.weight", "offset_bytes": 0, "size_bytes": 4096},
                {"owner": "kv 0", "offset_bytes": 4096, "size_bytes": 1024},
                {"owner": "kv 1", "offset_bytes": 5120, "size_bytes": 1024},
            ],
            "chunk_tokens": 256,
            "ring_slots": 8,
            "statistics": {
                "expert_reads_hit": 10 + 30 * moved,
                "expert_reads_missed": 5 + 10 * moved,
                "link_bytes": 999 + self.script.link_bytes * moved,
                "ring_entries": self.script.ring_entries * moved,
                "num_loans": 2 * moved,
                "lent_bytes": (1 << 20) * moved,
                "refilled_bytes": (1 << 19) * moved,
                "num_rooms": self.script.num_rooms * moved,
                "room_bytes": (1 << 18) * moved,
                "num_segment_loans": 1,
                "restored_bytes": (1 << 20) * moved,
                "num_drafts": self.script.num_drafts * moved,
                "num_drafts_accepted": self.script.num_drafts // 4 * moved,
                "num_maps_while_serving": self.script.num_maps_while_serving,
            },
        }


@contextmanager
def fake_server(script: Script) -> Iterator[FakeServer]:
    server = FakeServer(script)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()


def _handler_for(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            server.headers.append(dict(self.headers))
            body = server.script.models_body if self.path == "/v1/models" else json.dumps(server.card())
            self._answer(200, body)

        def do_POST(self) -> None:
            server.headers.append(dict(self.headers))
            server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if server.script.status != 200:
                self._answer(server.script.status, server.script.error_body)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b": keep-alive\n\n")
            try:
                for delta in server.script.deltas:
                    self._event({"choices": [{"index": 0, "delta": {"content": delta}, "finish_reason": None}]})
                self._end()
            except (ConnectionResetError, BrokenPipeError):  # it left before all was written
                server.client_left.set()

        def _end(self) -> None:
            script = server.script
            if script.ending == "hold":
                with suppress(ConnectionResetError):  # a client that leaves unread bytes behind resets the connection
                    self.connection.recv(1)  # returns when the client closes
                server.client_left.set()
            elif script.ending == "error":
                self._event({"error": {"message": "the engine\nfailed", "type": "server_error"}})
            elif script.ending != "cut":
                if script.ending == "done":
                    self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": script.finish_reason}]})
                usage = {"prompt_tokens": 100, "completion_tokens": len(script.deltas), "total_tokens": 0}
                self._event({"choices": [], "usage": usage} | ({"timings": script.timings} if script.timings else {}))
                self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, value: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())

        def _answer(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

    return Handler


def main() -> None:
    script = Script(**json.loads(sys.argv[1]))
    server = FakeServer(script)
    handler = signal.SIG_IGN if script.ignores_sigterm else lambda signum, frame: os._exit(script.exit_code)
    signal.signal(signal.SIGTERM, handler)
    if any(os.environ.get(name) != value for name, value in script.needs.items()):
        sys.exit(1)
    if not script.announces:
        print("the file is broken", file=sys.stderr)
        sys.exit(script.exit_code)
    print(f"strata: serving fake-model on {server.url}", flush=True)
    server.http.serve_forever()


if __name__ == "__main__":
    main()
