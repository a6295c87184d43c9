"""The listings of the barge-in bench: what the bot reads out, and what it is asked after it was cut off."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from pipecat_voicectx.errors import UsageError

__all__ = ["OPERATIONS", "Listing", "load_listings"]

# What the user asks for after cutting in.
OPERATIONS = {
    "elaborate": "Tell me more about this one.",
    "next": "And what comes after that?",
    "repeat": "Sorry, can you say the last one again?",
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list the bot reads out."""

    name: str
    listing_class: str
    items: tuple[str, ...]


def load_listings() -> list[Listing]:
    """The listings that come with the bench."""
    text = resources.files("pipecat_voicectx.bench").joinpath("bargein_scenarios.txt").read_text("utf-8")
    listings: list[Listing] = []
    for line in text.splitlines():
        if line.startswith("== "):
            listing_class, _, name = line[3:].partition(": ")
            listings.append(Listing(name, listing_class, ()))
        elif line and not line.startswith("#"):
            if not listings:
                raise UsageError("bargein_scenarios.txt: an item before the first heading")
            last = listings[-1]
            listings[-1] = Listing(last.name, last.listing_class, (*last.items, line))
    return listings
