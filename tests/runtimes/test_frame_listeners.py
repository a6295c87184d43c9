from __future__ import annotations

import pytest
from pipecat.frames.frames import Frame, InputAudioRawFrame, TextFrame, UserAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.runtimes.frame_listeners import listen, stop_listening
from pipecat_voicectx.testing.running import running
from pipecat_voicectx.testing.virtual_time import run

EVENTS = (
    "on_before_process_frame",
    "on_after_process_frame",
    "on_before_push_frame",
    "on_after_push_frame",
)


class Relay(FrameProcessor):
    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class Heard:
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def frame(self, _processor: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, (InputAudioRawFrame, UserAudioRawFrame, TextFrame)):
            self.kinds.append(type(frame).__name__)

    async def later(self, processor: FrameProcessor, frame: Frame) -> None:
        self.frame(processor, frame)


class LouderAudio(InputAudioRawFrame):
    """Somebody's own kind of frame."""


def audio(kind: type[InputAudioRawFrame] = InputAudioRawFrame) -> InputAudioRawFrame:
    return kind(audio=bytes(640), sample_rate=16_000, num_channels=1)


def sent(relay: Relay, *frames: Frame) -> None:
    run(_sent(relay, *frames))


async def _sent(relay: Relay, *frames: Frame) -> None:
    worker = PipelineWorker(Pipeline([relay]), enable_rtvi=False)
    async with running(worker):
        for frame in frames:
            await worker.queue_frame(frame)


@pytest.mark.parametrize("event", EVENTS)
def test_our_listeners_hear_everything_but_the_callers_audio(event: str) -> None:
    relay, heard = Relay(), Heard()
    listen(relay, event, heard.frame)
    listen(relay, event, heard.later)
    sent(relay, audio(), TextFrame("a"), audio(LouderAudio), audio())
    assert sorted(heard.kinds) == ["LouderAudio", "LouderAudio", "TextFrame", "TextFrame"]


def test_a_handler_of_somebody_else_sees_every_frame_as_ever() -> None:
    relay, ours, theirs = Relay(), Heard(), Heard()
    listen(relay, "on_before_push_frame", ours.frame)
    relay.add_event_handler("on_before_push_frame", theirs.later)
    sent(relay, audio(), TextFrame("a"))
    assert theirs.kinds == ["InputAudioRawFrame", "TextFrame"] == ours.kinds


def test_who_stopped_listening_hears_nothing_and_takes_nothing_from_others() -> None:
    relay, ours, theirs = Relay(), Heard(), Heard()
    listen(relay, "on_before_push_frame", ours.frame)
    stop_listening(relay, "on_before_push_frame", ours.frame)
    relay.add_event_handler("on_before_push_frame", theirs.frame)
    sent(relay, audio(), TextFrame("a"))
    assert (ours.kinds, theirs.kinds) == ([], ["InputAudioRawFrame", "TextFrame"])


def test_where_pipecat_has_changed_inside_a_listener_hears_audio_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    relay, heard = Relay(), Heard()
    handlers = relay._event_handlers
    monkeypatch.setattr(relay, "_event_handlers", [*handlers.items()])
    monkeypatch.setattr(
        relay, "add_event_handler", lambda name, handler: handlers[name].handlers.append(handler)
    )
    listen(relay, "on_before_push_frame", heard.frame)
    monkeypatch.undo()
    sent(relay, audio())
    assert heard.kinds == ["InputAudioRawFrame"]
