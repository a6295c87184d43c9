"""Pages for tests, with what matters as arguments."""

from __future__ import annotations

from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage, page_id
from pipecat_voicectx.memory.summary import SUMMARIZER_NAME, summarize_exchange

ANN = Owner(user_id="ann")


def page(
    index: int = 0,
    user: str = "Hello there.",
    bot: str = "Good morning.",
    *,
    session: str = "s1",
    owner: Owner = ANN,
    wall: float | None = None,
    unheard: str = "",
) -> VoicePage:
    """A finished exchange."""
    started = wall if wall is not None else 1_000.0 + 20 * index
    return VoicePage(
        id=page_id(owner, session, index),
        owner=owner,
        session_id=session,
        index=index,
        started_wall_secs=started,
        ended_wall_secs=started + 5,
        user_text=user,
        bot_text=bot,
        bot_text_source=BotTextSource.HEARD if bot else BotTextSource.NONE,
        unheard_text=unheard,
        summary=summarize_exchange(user, bot),
        summarizer=SUMMARIZER_NAME,
    )
