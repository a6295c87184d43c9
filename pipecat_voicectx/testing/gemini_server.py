"""A scripted server that speaks the Gemini Live protocol over a real WebSocket.

It takes the setup, seeded history and the stream of input audio, and answers when told to, with output transcription
ahead of audio, as the real service does. What it was given as audio is kept in order: that is all an audio-only model
knows. It does not understand speech: `speak` says when the model answers, `interrupted` when its turn detection fires.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import json
import ssl
import tempfile
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.genai.types import HttpOptions
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

__all__ = ["GeminiServer"]

_RATE_HZ = 24_000
_CHUNK_SECS = 0.2


@dataclass(kw_only=True)
class GeminiServer:
    """Start with `async with`. One client at a time."""

    speed: float = 5.0
    """Audio is sent this many times faster than real time."""
    setups: list[dict[str, Any]] = field(default_factory=list)
    """One for each session."""
    history: list[list[dict[str, Any]]] = field(default_factory=list)
    """The turns of each piece of client content."""
    pcm: bytearray = field(default_factory=bytearray)
    """Input audio of this session."""
    rates_hz: set[int] = field(default_factory=set)
    """Of the input audio."""
    violations: list[str] = field(default_factory=list)
    """Messages the protocol does not know."""
    certificate: bytes = b""
    """The server's own, as PEM: for a client in another process, by SSL_CERT_FILE."""
    _server: Server | None = None
    _socket: ServerConnection | None = None
    _speaking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> GeminiServer:
        tls, self.certificate = _server_tls()
        self._server = await serve(self._serve, "127.0.0.1", 0, max_size=None, ssl=tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """For GOOGLE_GEMINI_BASE_URL."""
        assert self._server is not None
        host, port = next(iter(self._server.sockets)).getsockname()[:2]
        return f"https://{host}:{port}"

    @property
    def http_options(self) -> HttpOptions:
        """For the client, which insists on TLS: the server's own certificate is taken without a check."""
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        return HttpOptions(base_url=self.url, async_client_args={"ssl": trusting})

    def speak(self, transcript: str, pcm: bytes) -> None:
        """The model answers."""
        self._speaking = asyncio.create_task(self._speak(transcript, pcm))

    async def interrupted(self) -> None:
        """The server's turn detection heard the user: the answer is broken off."""
        if await self._stop():
            await self._emit({"serverContent": {"interrupted": True}})

    async def drop(self) -> None:
        """The connection breaks off."""
        await self._stop()
        if self._socket is not None:
            self._socket.transport.abort()

    async def _serve(self, socket: ServerConnection) -> None:
        self._socket = socket
        self.pcm.clear()
        with contextlib.suppress(ConnectionClosed):
            async for message in socket:
                await self._on_message(json.loads(message))
        await self._stop()

    async def _on_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"setup": setup}:
                self.setups.append(setup)
                await self._emit({"setupComplete": {}})
            case {"clientContent": content} | {"client_content": content}:
                self.history.append(content.get("turns") or [])
            case {"realtimeInput": given} | {"realtime_input": given}:
                self._on_input(given)
            case {"toolResponse": _} | {"tool_response": _}:
                pass
            case _:
                self.violations.append(f"unknown message: {', '.join(message)}")

    def _on_input(self, given: dict[str, Any]) -> None:
        audio = given.get("audio")
        if audio is None:
            return
        mime_type = audio.get("mimeType") or audio.get("mime_type") or ""
        kind, _, rate = mime_type.partition(";rate=")
        if kind != "audio/pcm" or not rate.isdigit():
            self.violations.append(f"audio of type {mime_type!r}")
            return
        self.rates_hz.add(int(rate))
        self.pcm += base64.b64decode(audio["data"] + "==", altchars=b"-_")

    async def _speak(self, transcript: str, pcm: bytes) -> None:
        words = iter(transcript.split(" "))
        step = int(_CHUNK_SECS * _RATE_HZ) * 2
        first = True
        for start in range(0, len(pcm), step):
            for word in [word for _, word in zip(range(3), words, strict=False)]:
                text = word if first else f" {word}"
                first = False
                await self._emit({"serverContent": {"outputTranscription": {"text": text}}})
            chunk = pcm[start : start + step]
            data = {"mimeType": f"audio/pcm;rate={_RATE_HZ}", "data": base64.b64encode(chunk).decode()}
            await self._emit({"serverContent": {"modelTurn": {"parts": [{"inlineData": data}]}}})
            await asyncio.sleep(len(chunk) / 2 / _RATE_HZ / self.speed)
        await self._emit({"serverContent": {"generationComplete": True}})
        await self._emit({"serverContent": {"turnComplete": True}, "usageMetadata": {"totalTokenCount": 1}})

    async def _stop(self) -> bool:
        task, self._speaking = self._speaking, None
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    async def _emit(self, message: dict[str, Any]) -> None:
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(json.dumps(message))


def _server_tls() -> tuple[ssl.SSLContext, bytes]:
    """A context with a certificate of its own, valid on virtual time too; and that certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(1960, 1, 1))
        .not_valid_after(datetime.datetime(2100, 1, 1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    public = certificate.public_bytes(serialization.Encoding.PEM)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(public)
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        file.flush()
        context.load_cert_chain(file.name)
    return context, public
