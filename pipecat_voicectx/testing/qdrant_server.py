"""A Qdrant server for tests: the REST interface over a real socket, answered by the client library's own engine.

Qdrant's server is a program that is not on every machine. What a test of ours needs of it is the protocol, with its
ids, filters and paging, and an engine behind it that means what it says: that is `QdrantClient(":memory:")`. Only the
calls that the page store makes are there; any other is answered with 404, as by a server that does not know it. What
this cannot show is the real server's speed, its limits and its persistence.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models

__all__ = ["QdrantServer"]

_DONE = {"operation_id": 0, "status": "completed"}


class QdrantServer:
    """Listens while it is entered, on a port of its own; keeps its records over `stop` and `start`."""

    def __init__(self) -> None:
        self._engine = QdrantClient(":memory:")
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.calls: list[str] = []
        """`METHOD path` of every request, in their order."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._engine.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether it answers."""
        return self._server is not None

    def start(self) -> None:
        """Listens, on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Refuses connections from now on. Harmless when repeated."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """The result of one request. None: there is no such call.

        Raises:
            ValueError: The engine does not take it.
        """
        self.calls.append(f"{method} {path}")
        parts = path.strip("/").split("/")
        if len(parts) < 2 or parts[0] != "collections":
            return None
        call = _CALLS.get((method, "/".join(parts[2:])))
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the engine says that it ignores indexes
            return call(self._engine, parts[1], body) if call is not None else None


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    # Open connections of clients that keep them must not hold up the end.
    block_on_close = False


def _handler(owner: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            if not owner.is_running:
                self.close_connection = True
                return
            try:
                result = owner.answer(self.command, urlsplit(self.path).path, body)
            except (ValueError, KeyError) as error:
                self._reply(400, {"status": {"error": str(error)}, "time": 0.0})
                return
            if result is None:
                self._reply(404, {"status": {"error": "Not found"}, "time": 0.0})
            else:
                self._reply(200, {"result": result, "status": "ok", "time": 0.0})

        do_GET = do_PUT = do_POST = do_DELETE = _serve

        def _reply(self, status: int, content: Mapping[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    return Handler


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _create(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> bool:
    return engine.create_collection(name, vectors_config=models.VectorParams(**body["vectors"]))


def _upsert(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    engine.upsert(name, [models.PointStruct(**point) for point in body["points"]])
    return _DONE


def _retrieve(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> list[Any]:
    return [_plain(record) for record in engine.retrieve(name, body["ids"])]


def _scroll(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    records, offset = engine.scroll(
        name, scroll_filter=_filter(body), limit=body.get("limit") or 10, offset=body.get("offset")
    )
    return {"points": [_plain(record) for record in records], "next_page_offset": offset}


def _query(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    query = body["query"]
    vector = query["nearest"] if isinstance(query, dict) else query
    found = engine.query_points(name, query=vector, query_filter=_filter(body), limit=body.get("limit") or 10)
    return {"points": [_plain(point) for point in found.points]}


def _count(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"count": engine.count(name, count_filter=_filter(body)).count}


def _delete(engine: QdrantClient, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    chosen = models.FilterSelector(**body) if "filter" in body else models.PointIdsList(**body)
    engine.delete(name, points_selector=chosen)
    return _DONE


def _filter(body: Mapping[str, Any]) -> models.Filter | None:
    wanted = body.get("filter")
    return models.Filter(**wanted) if wanted else None


_CALLS: Mapping[tuple[str, str], Callable[[QdrantClient, str, Mapping[str, Any]], Any]] = {
    ("GET", "exists"): lambda engine, name, _: {"exists": engine.collection_exists(name)},
    ("PUT", ""): _create,
    ("DELETE", ""): lambda engine, name, _: engine.delete_collection(name),
    ("PUT", "index"): lambda _engine, _name, _body: _DONE,
    ("PUT", "points"): _upsert,
    ("POST", "points"): _retrieve,
    ("POST", "points/scroll"): _scroll,
    ("POST", "points/query"): _query,
    ("POST", "points/count"): _count,
    ("POST", "points/delete"): _delete,
}
