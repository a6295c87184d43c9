import pytest

from pipecat_voicectx.playback.spans import SpanRole, span_role


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("Shall I book it?", SpanRole.CONFIRMATION_REQUEST),
        ("What is your name?", SpanRole.QUESTION),
        ("Let me look that up.", SpanRole.TOOL_INTENT),
        ("I could offer the nine o'clock train.", SpanRole.PROPOSAL),
        ("It rains.", SpanRole.STATEMENT),
    ],
)
def test_roles_of_sentences(text: str, role: SpanRole) -> None:
    assert span_role(text) is role
