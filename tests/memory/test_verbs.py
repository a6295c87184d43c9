from __future__ import annotations

import pytest

from pipecat_voicectx.memory.verbs import base_form, is_finite, is_past


@pytest.mark.parametrize(
    ("form", "base"),
    [
        ("stopped", "stop"), ("studies", "study"), ("baked", "bake"), ("drove", "drive"), ("skiing", "ski"),
        ("went", "go"),         ("table", None), ("wedding", None), ("", None),
    ],
)  # fmt: skip
def test_the_base_of_a_form(form: str, base: str | None) -> None:
    assert base_form(form) == base


def test_what_may_be_the_verb_behind_a_noun() -> None:
    assert is_finite("barks", plural=False)
    assert not is_finite("bark", plural=False)
    assert is_finite("bark", plural=True)
    assert is_finite("barked", plural=False)
    assert is_finite("is", plural=False)
    assert not is_finite("barking", plural=False)
    assert not is_finite("last", plural=True)
    assert not is_finite("classes", plural=False)


def test_the_past_is_known_also_of_irregular_verbs() -> None:
    assert is_past("sold")
    assert is_past("moved")
    assert is_past("had")
    assert not is_past("sell")
    assert not is_past("shot")
    assert not is_past("table")
