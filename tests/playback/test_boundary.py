from pipecat_voicectx.playback.boundary import PhysicalBoundary, semantic_boundary
from pipecat_voicectx.playback.spans import Span, SpanRole


def span(start: int, end: int, *, finalized: bool = True) -> Span:
    return Span(
        text=f"{start}-{end}",
        role=SpanRole.STATEMENT,
        start_samples=start,
        end_samples=end,
        finalized=finalized,
    )


def played(samples: int) -> PhysicalBoundary:
    return PhysicalBoundary(turn_id=3, played_samples=samples, sample_rate_hz=1000, estimated=False)


def test_a_sentence_counts_once_it_and_the_tolerance_were_played() -> None:
    spans = [span(0, 500), span(500, 1000)]
    assert semantic_boundary(spans, played(549), epsilon_secs=0.05) is None
    boundary = semantic_boundary(spans, played(550), epsilon_secs=0.05)
    assert boundary is not None
    assert (boundary.turn_id, boundary.span.text) == (3, "0-500")


def test_an_estimated_sentence_never_makes_a_boundary() -> None:
    spans = [span(0, 500), span(500, 1000, finalized=False)]
    boundary = semantic_boundary(spans, played(5000), epsilon_secs=0.05)
    assert boundary is not None
    assert boundary.span.text == "0-500"
    assert semantic_boundary([span(0, 500, finalized=False)], played(5000), epsilon_secs=0.05) is None


def test_the_last_sentence_of_a_turn_needs_no_tolerance_once_the_turn_was_played() -> None:
    spans = [span(0, 500), span(500, 1000)]
    assert semantic_boundary(spans, played(1000), epsilon_secs=0.05).span.text == "0-500"  # type: ignore[union-attr]
    whole = PhysicalBoundary(
        turn_id=3, played_samples=1000, sample_rate_hz=1000, estimated=False, complete=True
    )
    assert semantic_boundary(spans, whole, epsilon_secs=0.05).span.text == "500-1000"  # type: ignore[union-attr]
