"""Starts the scripted language model for a pass, points the bot's OpenAI service at it, and writes its events."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pipecat_voicectx.demo.environment import scripted_environment
from pipecat_voicectx.demo.events import EventLog, read_events
from pipecat_voicectx.demo.policy import TripPolicy
from pipecat_voicectx.demo.scenario import Scenario
from pipecat_voicectx.testing.openai_server import OpenAIServer, ReplyRecord, RequestRecord

__all__ = ["scripted_llm"]


@asynccontextmanager
async def scripted_llm(scenario: Scenario, log: EventLog, caller_events: Path) -> AsyncIterator[OpenAIServer]:
    """Serves for the duration. Sets OPENAI_BASE_URL in this process, for the bot in it or started from it."""

    def on_request(record: RequestRecord) -> None:
        log.write(
            "request",
            at=log.at(record.at_secs),
            n=record.n,
            call=sum(event["kind"] == "call_start" for event in read_events([caller_events])),
            tokens=record.tokens,
            parts=dict(record.parts),
            messages=list(record.messages),
            tools=list(record.tools),
        )

    def on_reply(record: ReplyRecord) -> None:
        calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in record.tool_calls]
        log.write(
            "reply",
            at=log.at(record.at_secs),
            n=record.n,
            text=record.text,
            tool_calls=calls,
            complete=record.complete,
        )

    async with OpenAIServer(TripPolicy(scenario), on_request=on_request, on_reply=on_reply) as server:
        ours = scripted_environment(server.base_url)
        saved = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        try:
            yield server
        finally:
            for name, value in saved.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
