"""A small conversation of our own in LoCoMo's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_LINES = [
    [
        ("Ina", "I finally bought a cello last week."),
        ("Rob", "Lovely! Where will you practise?"),
        ("Ina", "In the cellar, so that the neighbours can sleep."),
        ("Rob", "My brother moved to Porto for a job in a bakery."),
        ("Ina", "Does he like it there?"),
        ("Rob", "He loves the sea, but not getting up at three."),
        ("Ina", "I would not like that either."),
    ],
    [
        ("Rob", "My brother opened his own bakery yesterday."),
        ("Ina", "Wow, what is it called?"),
        ("Rob", "The Early Gull."),
        ("Ina", "I played my first concert with the cello."),
        ("Rob", "How was it?"),
        ("Ina", "Terrifying and wonderful, in a small church."),
    ],
]
QUESTIONS = [
    ("Where does Ina practise the cello?", 4, ["D1:1", "D1:3"]),
    ("What is the bakery of Rob's brother called?", 4, ["D2:3"]),
    ("What does Rob's brother do?", 1, ["D1:4; D2:1"]),
    ("When did Ina play a concert?", 2, ["D:2:4"]),
    ("Nobody knows?", 3, ["D9:9"]),
    ("What is Ina's horse called?", 5, ["D1:1"]),
]


def sample() -> dict[str, Any]:
    """One sample, as the file has it."""
    talk: dict[str, Any] = {"speaker_a": "Ina", "speaker_b": "Rob"}
    for number, lines in enumerate(_LINES, start=1):
        talk[f"session_{number}_date_time"] = f"{number}:30 pm on {number} May, 2025"
        talk[f"session_{number}"] = [
            {"speaker": speaker, "dia_id": f"D{number}:{index}", "text": text}
            for index, (speaker, text) in enumerate(lines, start=1)
        ]
    talk["session_1"][0]["blip_caption"] = "a wooden cello"
    questions = [
        {"question": text, "category": category, "evidence": evidence, "answer": "x"}
        for text, category, evidence in QUESTIONS
    ]
    return {"sample_id": "talk-1", "conversation": talk, "qa": questions}


def write(folder: Path) -> Path:
    """The sample as a file."""
    path = folder / "talk.json"
    path.write_text(json.dumps([sample()]))
    return path
