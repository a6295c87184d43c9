"""Where one pass keeps its events and its store, and what a session is told about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["PART_LABELS", "PassFiles"]

PART_LABELS = ("hears", "thinks", "speaks", "plugin", "recalls")
"""First words of the lines in which a bot says what it is made of."""


@dataclass(frozen=True, slots=True)
class PassFiles:
    """A folder of one pass."""

    folder: Path

    @property
    def caller_events(self) -> Path:
        return self.folder / "caller.jsonl"

    @property
    def bot_events(self) -> Path:
        return self.folder / "bot.jsonl"

    @property
    def llm_events(self) -> Path:
        return self.folder / "llm.jsonl"

    @property
    def start(self) -> Path:
        """Monotonic time at which a live pass began; written by the caller when the bot could be called."""
        return self.folder / "start_secs"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def event_files(self) -> list[Path]:
        return [self.caller_events, self.bot_events, self.llm_events]

    @property
    def log(self) -> Path:
        """Output of the pass's processes."""
        return self.folder / "output.log"

    def session_body(
        self, *, plugin: bool, scenario_path: Path, call: int, start_secs: float
    ) -> dict[str, object]:
        """The runner body of a session; the same object goes through HTTP and in process."""
        return {
            "plugin": int(plugin),
            "scenario": str(scenario_path),
            "call": call,
            "user_id": "demo-caller",
            "store": str(self.store),
            "events": str(self.bot_events),
            "start_secs": start_secs,
        }
