"""Spans: ours under Pipecat's turn, in the SDK's own memory; none when tracing is off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.observers.tracing import SessionTracing
from pipecat_voicectx.testing.scripted_session import Session, play_in_loop
from pipecat_voicectx.testing.virtual_time import run
from tests.observers.calls import Model, whole_call

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="no SDK here: pip install 'pipecat-ai[tracing]'")


@pytest.fixture(scope="module")
def exporter() -> Iterator[Any]:
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    yield kept
    provider.shutdown()


def traced_call(*, enable_tracing: bool) -> list[SessionTracing | None]:
    attached: list[SessionTracing | None] = []

    async def script(session: Session) -> None:
        attached.append(SessionTracing.attach(session.worker))
        await whole_call(session)

    run(play_in_loop(script, Model(), ours=True, tts=EspeakTTSService, enable_tracing=enable_tracing))
    return attached


@pytest.fixture(scope="module")
def spans(exporter: Any) -> list[Any]:
    exporter.clear()
    assert traced_call(enable_tracing=True)[0] is not None
    return list(exporter.get_finished_spans())


def ours(spans: list[Any]) -> list[Any]:
    return [span for span in spans if span.name.startswith("voicectx.")]


def test_every_part_has_its_span(spans: list[Any]) -> None:
    assert {span.name for span in ours(spans)} == {
        "voicectx.recall", "voicectx.projection", "voicectx.decision", "voicectx.repair", "voicectx.commit",
    }  # fmt: skip


def test_each_is_a_child_of_a_turn(spans: list[Any]) -> None:
    turns = {span.context.span_id: span for span in spans if span.name == "turn"}
    assert len(turns) >= 3
    for span in ours(spans):
        assert span.parent is not None, span.name
        assert span.parent.span_id in turns, span.name
        assert span.context.trace_id == turns[span.parent.span_id].context.trace_id


def test_a_hold_and_a_repair_last_as_long_as_they_took(spans: list[Any]) -> None:
    hold = next(s for s in ours(spans) if s.attributes.get("voicectx.kind") == "hold")
    assert 0.3 < (hold.end_time - hold.start_time) / 1e9 < 5.0
    assert hold.attributes["voicectx.outcome"] == "continued"
    repair = next(s for s in ours(spans) if s.name == "voicectx.repair")
    assert 0.0 < (repair.end_time - repair.start_time) / 1e9 < 3.0
    assert repair.attributes["voicectx.unheard_words"] > 0


def test_what_was_decided_is_told(spans: list[Any]) -> None:
    told = {
        (s.attributes["voicectx.kind"], s.attributes["voicectx.outcome"])
        for s in ours(spans)
        if s.name == "voicectx.decision"
    }
    assert ("SetResponseSpeed", "applied") in told
    assert ("set_vad_silence_duration", "rejected") in told


def test_no_attribute_holds_words(spans: list[Any]) -> None:
    told = " ".join(str(value) for span in ours(spans) for value in span.attributes.values())
    for word in ("Ghent", "train", "slower", "leaves"):
        assert word not in told


def test_nothing_is_attached_when_tracing_is_off(exporter: Any) -> None:
    exporter.clear()
    assert traced_call(enable_tracing=False) == [None]
    assert ours(list(exporter.get_finished_spans())) == []
