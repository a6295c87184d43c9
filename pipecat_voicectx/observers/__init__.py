"""Watching a session from outside: recording it, replaying its decisions, tracing its work."""

from pipecat_voicectx.observers.events import EventKind, SessionEvent, SessionHeader, read_session
from pipecat_voicectx.observers.recorder import RecorderConfig, SessionRecorder, TextPolicy
from pipecat_voicectx.observers.replay import ReplayResult, replay
from pipecat_voicectx.observers.watch import SessionWatch

__all__ = [
    "EventKind",
    "RecorderConfig",
    "ReplayResult",
    "SessionEvent",
    "SessionHeader",
    "SessionRecorder",
    "SessionWatch",
    "TextPolicy",
    "read_session",
    "replay",
]
