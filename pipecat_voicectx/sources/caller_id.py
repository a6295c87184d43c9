"""Who is on the phone: the caller's number from what a telephony provider said when the call came in.

Pipecat's runner parses that into `call_data` (Twilio, Telnyx, Plivo, Exotel). A number is a hint, no proof: it can be
forged and shared, so decide in your own lookup what it may open.

    number = caller_number(runner_args.call_data)
    user_id = await my_lookup(number) if number else None
    if user_id:
        await voice.identify(user_id, store_path=...)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["caller_number", "normalized_number"]

_KEYS = ("from", "from_number", "caller", "caller_id")
# E.164 allows fifteen digits; shorter than four is a service code or a withheld number.
_DIGITS = range(4, 16)


def caller_number(call_data: object) -> str | None:
    """The caller's number in one form, "+4930123456"; None when it is withheld or the provider does not say."""
    for key in _KEYS:
        value = call_data.get(key) if isinstance(call_data, Mapping) else getattr(call_data, key, None)
        if isinstance(value, str) and (number := normalized_number(value)) is not None:
            return number
    return None


def normalized_number(said: str) -> str | None:
    """A number without blanks and punctuation, "00" as "+"; None for what is none ("anonymous", "+266696687")."""
    text = re.sub(r"^(?:tel|sip):", "", said.strip(), flags=re.IGNORECASE).partition("@")[0]
    if not re.fullmatch(r"\+?[\d\s().\-/]+", text):
        return None
    digits = re.sub(r"\D", "", text)
    international = text.startswith("+")
    if not international and digits.startswith("00"):
        digits, international = digits[2:], True
    # What some networks put for a withheld number: "anonymous" and "unknown" on a keypad.
    if len(digits) not in _DIGITS or digits in {"266696687", "8656696", "7378742833"}:
        return None
    return f"+{digits}" if international else digits
