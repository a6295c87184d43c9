"""Pages of made-up talk, for benches in which only their number matters."""

from __future__ import annotations

from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage, page_id
from pipecat_voicectx.memory.summary import summarize_exchange

__all__ = ["BENCH_OWNER", "made_page"]

BENCH_OWNER = Owner(user_id="bench")
_EXCHANGES_A_SESSION = 30


def made_page(number: int, user_text: str, bot_text: str) -> VoicePage:
    """The `number`-th exchange of one owner, twenty seconds after the one before."""
    session, index = f"s{number // _EXCHANGES_A_SESSION:06}", number % _EXCHANGES_A_SESSION
    return VoicePage(
        id=page_id(BENCH_OWNER, session, index),
        owner=BENCH_OWNER,
        session_id=session,
        index=index,
        started_wall_secs=20.0 * number,
        ended_wall_secs=20.0 * number + 15,
        user_text=user_text,
        bot_text=bot_text,
        bot_text_source=BotTextSource.HEARD,
        summary=summarize_exchange(user_text, bot_text),
    )
