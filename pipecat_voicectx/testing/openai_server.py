"""A chat-completions server on a local socket, answered by a policy in place of a model.

It speaks the protocol that hosted services speak: server-sent events with role, content and tool-call deltas, usage
on request, errors in OpenAI's form, and the API's own refusal of a history in which a tool call lacks its result. So
the stock `openai` client, and everything built on it, is used unchanged. Only what comes out is scripted.

Delays are `asyncio.sleep`, so the server follows a virtual clock when it runs in the loop of the bot.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from aiohttp import web

from pipecat_voicectx.testing.tokens import estimate_tokens, request_parts

__all__ = [
    "ApiError",
    "ChatPolicy",
    "ChatRequest",
    "OpenAIServer",
    "Pause",
    "Reply",
    "ReplyRecord",
    "RequestRecord",
    "ToolCall",
]

# Chosen: a long call's request with audio removed stays far below.
_MAX_BODY_BYTES = 8 * 1024 * 1024
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What a model would be given."""

    model: str
    messages: tuple[Mapping[str, object], ...]
    tools: tuple[Mapping[str, object], ...] = ()

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the advertised functions."""
        functions = (tool.get("function") for tool in self.tools)
        return frozenset(str(function["name"]) for function in functions if isinstance(function, Mapping))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One function the reply calls."""

    name: str
    arguments: Mapping[str, object]
    call_id: str | None = None
    """None: one of its own, as OpenAI gives it. Other providers number their calls anew in each response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The stream falls silent once."""

    after_words: int
    secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the policy wants said or called, and how fast it streams."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    first_token_secs: float = 0.0
    token_secs: float = 0.0
    """Between two words, a word being what is streamed at a time."""
    pause: Pause | None = None


class ApiError(Exception):
    """Raised by a policy to answer with an HTTP error in OpenAI's form."""

    def __init__(
        self, status: int, message: str, *, kind: str = "server_error", code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code


class ChatPolicy(Protocol):
    """Stands in for a model. Sees the request and nothing else."""

    def reply(self, request: ChatRequest) -> Reply:
        """Answers one request; raises `ApiError` to refuse it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request as it arrived."""

    n: int
    """From 1."""
    at_secs: float
    """Monotonic."""
    messages: tuple[Mapping[str, object], ...]
    tools: tuple[str, ...]
    parts: Mapping[str, int]
    """Estimated tokens: system, tools, history, recalled, state."""
    body: bytes = b""
    """As it came over the socket."""

    @property
    def tokens(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRecord:
    """What was sent back for request `n`, up to where the client hung up if it did."""

    n: int
    at_secs: float
    text: str
    tool_calls: tuple[ToolCall, ...]
    complete: bool


@dataclass(slots=True)
class OpenAIServer:
    """`async with OpenAIServer(policy) as server:` and point a client at `server.base_url`."""

    policy: ChatPolicy
    port: int = 0
    """0: any free one."""
    routes: Sequence[web.RouteDef] = ()
    """What the host serves beside chat, for instance audio."""
    on_request: Callable[[RequestRecord], None] | None = None
    on_reply: Callable[[ReplyRecord], None] | None = None
    requests: list[RequestRecord] = field(default_factory=list)
    _runner: web.AppRunner | None = None
    _base_url: str = ""

    @property
    def base_url(self) -> str:
        """With `/v1`, as clients want it."""
        return self._base_url

    async def __aenter__(self) -> OpenAIServer:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat_completions)
        app.router.add_routes(self.routes)
        # Cancelled with the connection: an interrupted bot closes the stream, and the policy must stop talking.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self._base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
            chat = _parse(body)
        except (json.JSONDecodeError, UnicodeDecodeError):
            return _error(
                400, "We could not parse the JSON body of your request.", "invalid_request_error", None
            )
        except ApiError as refusal:
            return _error(refusal.status, str(refusal), refusal.kind, refusal.code)
        n = self._record_request(chat, await request.read())
        try:
            reply = self.policy.reply(chat)
        except ApiError as refusal:
            return _error(refusal.status, str(refusal), refusal.kind, refusal.code)
        completion = _Completion(n=n, model=chat.model, reply=reply, prompt_tokens=self.requests[-1].tokens)
        complete = False
        try:
            response: web.StreamResponse
            if body.get("stream"):
                options = body.get("stream_options") or {}
                response = await completion.stream(request, include_usage=bool(options.get("include_usage")))
            else:
                await asyncio.sleep(reply.first_token_secs)
                response = completion.whole()
            complete = True
            return response
        finally:
            self._record_reply(completion, complete=complete)

    def _record_request(self, chat: ChatRequest, body: bytes) -> int:
        n = len(self.requests) + 1
        names = tuple(sorted(chat.tool_names))
        parts = request_parts(chat.messages, chat.tools)
        record = RequestRecord(
            n=n, at_secs=time.monotonic(), messages=chat.messages, tools=names, parts=parts, body=body
        )
        self.requests.append(record)
        if self.on_request:
            self.on_request(record)
        return n

    def _record_reply(self, completion: _Completion, *, complete: bool) -> None:
        if self.on_reply:
            text = completion.reply.text if complete else completion.sent
            calls = completion.reply.tool_calls if complete else ()
            record = ReplyRecord(
                n=completion.n, at_secs=time.monotonic(), text=text, tool_calls=calls, complete=complete
            )
            self.on_reply(record)


@dataclass(slots=True)
class _Completion:
    """One reply on its way out."""

    n: int
    model: str
    reply: Reply
    prompt_tokens: int
    sent: str = ""

    async def stream(self, request: web.Request, *, include_usage: bool) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        reply = self.reply
        await asyncio.sleep(reply.first_token_secs)
        await self._send(response, {"role": "assistant", "content": "" if reply.text else None})
        for index, word in enumerate(_streamed_words(reply.text)):
            if reply.pause and index == reply.pause.after_words:
                await asyncio.sleep(reply.pause.secs)
            await self._send(response, {"content": word})
            self.sent += word
            await asyncio.sleep(reply.token_secs)
        for index, call in enumerate(reply.tool_calls):
            await self._stream_tool_call(response, index, call)
        await self._send(response, {}, finish_reason="tool_calls" if reply.tool_calls else "stop")
        if include_usage:
            await self._write(
                response, {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()}
            )
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _stream_tool_call(self, response: web.StreamResponse, index: int, call: ToolCall) -> None:
        """As the real API does: name first, then the arguments in pieces."""
        arguments = json.dumps(call.arguments)
        opening = {"index": index, "id": call.call_id or f"call_{self.n}_{index}", "type": "function"}
        await self._send(
            response, {"tool_calls": [{**opening, "function": {"name": call.name, "arguments": ""}}]}
        )
        for start in range(0, len(arguments), 12):
            piece = {"index": index, "function": {"arguments": arguments[start : start + 12]}}
            await self._send(response, {"tool_calls": [piece]})

    def whole(self) -> web.Response:
        calls = [
            {
                "id": call.call_id or f"call_{self.n}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(self.reply.tool_calls)
        ]
        message: dict[str, object] = {"role": "assistant", "content": self.reply.text or None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return web.json_response(
            {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}
        )

    def _usage(self) -> dict[str, int]:
        spoken = estimate_tokens(self.reply.text)
        called = sum(estimate_tokens(f"{c.name} {json.dumps(c.arguments)}") for c in self.reply.tool_calls)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": spoken + called,
            "total_tokens": self.prompt_tokens + spoken + called,
        }

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": f"chatcmpl-{self.n}", "object": kind, "created": int(time.time()), "model": self.model}

    async def _send(
        self, response: web.StreamResponse, delta: Mapping[str, object], *, finish_reason: str | None = None
    ) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        await self._write(response, {**self._head("chat.completion.chunk"), "choices": [choice]})

    async def _write(self, response: web.StreamResponse, payload: Mapping[str, object]) -> None:
        await response.write(f"data: {json.dumps(payload)}\n\n".encode())


def _streamed_words(text: str) -> list[str]:
    """Words with the space in front, as tokens have it."""
    words = text.split()
    return [word if index == 0 else f" {word}" for index, word in enumerate(words)]


def _error(status: int, message: str, kind: str, code: str | None) -> web.Response:
    return web.json_response(
        {"error": {"message": message, "type": kind, "param": None, "code": code}}, status=status
    )


def _parse(body: object) -> ChatRequest:
    """Raises `ApiError` where the real API refuses."""
    if not isinstance(body, Mapping):
        raise ApiError(400, "The request body must be a JSON object.", kind="invalid_request_error")
    model, messages, tools = body.get("model"), body.get("messages"), body.get("tools") or []
    if not isinstance(model, str) or not model:
        raise ApiError(400, "you must provide a model parameter", kind="invalid_request_error")
    if not isinstance(messages, list) or not messages:
        raise ApiError(
            400,
            "Missing required parameter: 'messages'.",
            kind="invalid_request_error",
            code="missing_required_parameter",
        )
    _check_messages(messages)
    if not isinstance(tools, list):
        raise ApiError(400, "Invalid type for 'tools': expected an array.", kind="invalid_request_error")
    return ChatRequest(model=model, messages=tuple(messages), tools=tuple(tools))


def _check_messages(messages: Sequence[object]) -> None:
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or role not in _ROLES:
            raise ApiError(400, f"Invalid value for 'messages[{index}].role'.", kind="invalid_request_error")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in open_calls:
                raise ApiError(
                    400,
                    f"Invalid parameter: messages[{index}] with role 'tool' must be a response to a preceding message "
                    "with 'tool_calls'.",
                    kind="invalid_request_error",
                )
            open_calls.remove(str(call_id))
        elif open_calls:
            break
        else:
            open_calls = [str(call.get("id")) for call in message.get("tool_calls") or []]
    if open_calls:
        raise ApiError(
            400,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
            kind="invalid_request_error",
        )
