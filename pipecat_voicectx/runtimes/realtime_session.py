"""Another session for a realtime service whose connection broke off.

The server forgets the conversation with the connection. The new session gets what the shared context holds (bounded,
where memory keeps it so) as the service itself would set it up. An answer that broke off is closed, so that what was
heard of it is committed; the user's audio is held until the new session knows the conversation.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from loguru import logger
from pipecat.frames.frames import LLMFullResponseEndFrame, TTSStoppedFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.private_reads import has_private
from pipecat_voicectx.projection.block import is_our_block
from pipecat_voicectx.runtimes.realtime_socket import JsonObject, RealtimeSocket

__all__ = ["RealtimeRenewal"]

# Chosen: at once, then patiently; a caller waits about this long before hanging up.
_BACK_OFF_SECS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
# Chosen: a session is configured within a round trip or two.
_READY_SECS = 5.0


class RealtimeRenewal:
    """Opens a session and hands the conversation over."""

    def __init__(self, llm: FrameProcessor) -> None:
        self._llm = cast(Any, llm)
        self._socket = RealtimeSocket.of(llm)
        self._opened = asyncio.Event()
        self._ready = False
        self.renewals = 0
        """Sessions opened after a connection broke off."""
        self._socket.on_event(self._on_event)
        self._socket.on_lost(self._opened.set)

    @staticmethod
    def fits(llm: FrameProcessor) -> bool:
        """Whether `llm` can be given another session."""
        names = (
            "reset_conversation",
            "_connect",
            "_disconnect",
            "_llm_needs_conversation_setup",
            "_create_response",
        )
        return has_private(llm, *names)

    async def _on_event(self, event: JsonObject) -> None:
        if event["type"] == "session.updated":
            self._ready = True
            self._opened.set()

    async def renew(self) -> bool:
        """Returns whether there is a session again that knows the conversation. `RealtimeSocket.resume` it then."""
        await self._close_answer()
        for wait_secs in _BACK_OFF_SECS:
            await asyncio.sleep(wait_secs)
            if await self._open():
                await self._hand_over()
                self.renewals += 1
                logger.info("{}: new session after the connection broke off", self._llm)
                return True
        return False

    async def _close_answer(self) -> None:
        llm = self._llm
        answering = llm._current_assistant_response is not None or llm._current_audio_response is not None
        llm._current_assistant_response = llm._current_audio_response = None
        if answering:
            # In this order: more text than audio may have come.
            await llm.push_frame(LLMFullResponseEndFrame())
            await llm.push_frame(TTSStoppedFrame())

    async def _open(self) -> bool:
        self._ready = False
        self._opened.clear()
        if self._llm._context is not None:
            await self._llm.reset_conversation()
        else:
            await self._llm._disconnect()
            await self._llm._connect()
        if self._llm._websocket is None:
            return False
        try:
            async with asyncio.timeout(_READY_SECS):
                await self._opened.wait()
        except TimeoutError:
            return False
        return self._ready

    async def _hand_over(self) -> None:
        """What the service does ahead of its first answer, without asking for one."""
        from pipecat.services.openai.realtime import events

        llm = self._llm
        if llm._context is None or not llm._llm_needs_conversation_setup:
            return
        messages = [message for message in llm._context.messages if not is_our_block(message)]
        known = LLMContext(messages=messages, tools=llm._context.tools)
        params = await llm.get_llm_adapter().get_llm_invocation_params(known)
        for item in params["messages"]:
            llm._messages_added_manually[item.id] = True
            await llm.send_client_event(events.ConversationItemCreateEvent(item=item))
        await llm._send_session_update()
        llm._llm_needs_conversation_setup = False
