"""What of a page is embedded."""

from __future__ import annotations

from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.text import strip_for_embedding
from pipecat_voicectx.stores.embedders import Embedder

__all__ = ["embed_page", "page_texts"]


def page_texts(page: VoicePage) -> tuple[str, str]:
    """What of a page is embedded: the user's and the heard text, stripped."""
    return strip_for_embedding(page.user_text), strip_for_embedding(page.bot_text)


def embed_page(embedder: Embedder, page: VoicePage) -> tuple[FloatArray | None, FloatArray | None]:
    """Vectors of a page's two turns; None for an empty turn. Blocks."""
    texts = page_texts(page)
    vectors = iter(embedder.embed([text for text in texts if text]))
    user, bot = (next(vectors) if text else None for text in texts)
    return user, bot
