from __future__ import annotations

from pathlib import Path

from openai import AsyncOpenAI

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.summarizer import OpenAISummarizer
from pipecat_voicectx.testing.openai_server import ApiError, ChatRequest, OpenAIServer, Reply
from pipecat_voicectx.testing.virtual_time import run
from tests.memory.builders import ANN, page


class Says:
    """Answers with one text, or refuses."""

    def __init__(self, text: str | None) -> None:
        self._text = text
        self.asked: list[str] = []

    def reply(self, request: ChatRequest) -> Reply:
        self.asked.append(str(request.messages[-1]["content"]))
        if self._text is None:
            raise ApiError(400, "no")
        return Reply(text=self._text)


def remember(folder: Path, policy: Says) -> tuple[str, str, int]:
    """Writes one page with a summarizer, and reads summary and summarizer after a restart."""

    async def main() -> tuple[str, str, int]:
        async with OpenAIServer(policy) as server:
            client = AsyncOpenAI(api_key="x", base_url=server.base_url, max_retries=0)
            summarizer = OpenAISummarizer(client, model="small")
            store = PageStoreConfig(path=folder)
            mine = PageMemory(
                owner=ANN, session_id="s1", embedder=LexicalEmbedder(), store=store, summarizer=summarizer
            )
            await mine.open()
            write = mine.add(page(0, "A room for two, please.", "Booked for Friday."))
            await write.journaled()
            await write.settled()
            await mine.close()
            await client.close()
            again = PageMemory(owner=ANN, session_id="s2", embedder=LexicalEmbedder(), store=store)
            await again.open()
            (kept,) = again.pages.values()
            await again.close()
            return kept.summary, kept.summarizer, mine.failed_summaries

    return run(main())


def test_a_model_may_rewrite_the_summary_and_the_store_keeps_it(tmp_path: Path) -> None:
    policy = Says("User: wants a room for two.\n You: booked Friday.")
    assert remember(tmp_path / "m", policy) == (
        "User: wants a room for two. You: booked Friday.",
        "llm:small",
        0,
    )
    assert policy.asked == ["User: A room for two, please.\nYou: Booked for Friday."]


def test_a_model_that_fails_or_babbles_leaves_the_rule_based_summary(tmp_path: Path) -> None:
    for number, text in enumerate((None, "", "word " * 500)):
        summary, summarizer, failed = remember(tmp_path / str(number), Says(text))
        assert summary == "User: A room for two, please. You: Booked for Friday."
        assert summarizer.startswith("rule-based")
        assert failed == 1
