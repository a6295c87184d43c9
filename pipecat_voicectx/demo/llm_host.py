"""Starts the scripted language model for a pass and points the bot's OpenAI service at it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.scenario import Scenario


@asynccontextmanager
async def scripted_llm(scenario: Scenario, log: EventLog) -> AsyncIterator[str]:
    n = 0
    async def chat(request):
        nonlocal n
        n += 1
        body = await request.json()
        log.write("request", n=n, messages=body["messages"])
        resp = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await resp.prepare(request)
        text = "Here are five trips. Ghent by train, six hundred euros. Lyon by train, seven hundred and twenty euros. Turin by train, eight hundred and ten euros. Lucerne by boat. Aarhus by plane."
        for w in text.split(" "):
            d = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": w + " "}, "finish_reason": None}]}
            await resp.write(b"data: " + json.dumps(d).encode() + b"\n\n")
        d["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        await resp.write(b"data: " + json.dumps(d).encode() + b"\n\ndata: [DONE]\n\n")
        return resp
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app); await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0); await site.start()
    port = site._server.sockets[0].getsockname()[1]
    os.environ["OPENAI_BASE_URL"] = f"http://127.0.0.1:{port}/v1"; os.environ["VOICECTX_SCRIPTED_LLM"] = "1"
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await runner.cleanup()
