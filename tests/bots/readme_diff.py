"""The README's diff, and how a reader applies it: by the lines around each change."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STOCK_BOT = Path(__file__).with_name("weather_bot.py")


def readme_diff() -> str:
    """The one diff of the README."""
    (diff,) = re.findall(r"^```diff\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(diff)


def applied(diff: str, text: str) -> str:
    """`text` after the diff; every hunk must fit in exactly one place."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.rstrip("\n").split("\n")]
        old = "".join(f"{line}\n" for sign, line in lines if sign in " -")
        new = "".join(f"{line}\n" for sign, line in lines if sign in " +")
        assert old.strip(), f"a hunk without a line of the bot: nobody knows where it goes\n{hunk}"
        assert text.count(old) == 1, f"fits in {text.count(old)} places:\n{old}"
        text = text.replace(old, new)
    return text
