"""The travel assistant's own tool: what an application brings along, and nothing the plugin knows about."""

from __future__ import annotations

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.services.llm_service import FunctionCallParams

__all__ = ["FIND_TRIPS", "find_trips"]

FIND_TRIPS = FunctionSchema(
    name="find_trips",
    description="Finds trips that can be booked now. Call it once when the caller wants to see options.",
    properties={
        "month": {"type": "string", "description": "Month of travel, if the caller named one."},
        "travellers": {"type": "integer", "description": "Number of people."},
    },
    required=[],
)

_NIGHTS = 5
_TRIPS: tuple[tuple[str, str, str, int, str, float, bool, tuple[str, ...]], ...] = (
    (
        "GNT-204",
        "Ghent",
        "Belgium",
        640,
        "train",
        4.6,
        True,
        ("canal-side hotel", "breakfast", "bicycle hire"),
    ),
    (
        "LYS-118",
        "Lyon",
        "France",
        720,
        "train",
        4.7,
        True,
        ("old town apartment", "market tour", "tram pass"),
    ),
    (
        "TRN-377",
        "Turin",
        "Italy",
        810,
        "train",
        4.5,
        True,
        ("palace quarter hotel", "breakfast", "museum card"),
    ),
    (
        "LUC-052",
        "Lucerne",
        "Switzerland",
        1180,
        "train",
        4.8,
        False,
        ("lake hotel", "half board", "boat pass"),
    ),
    (
        "AAR-261",
        "Aarhus",
        "Denmark",
        870,
        "flight",
        4.4,
        False,
        ("harbour hotel", "breakfast", "airport transfer"),
    ),
)


async def find_trips(params: FunctionCallParams) -> None:
    """Answers as a small agency's inventory would: five offers with what a clerk needs to sell them."""
    await params.result_callback(
        {"currency": "EUR", "price_for": "two people", "trips": [_offer(t) for t in _TRIPS]}
    )


def _offer(trip: tuple[str, str, str, int, str, float, bool, tuple[str, ...]]) -> dict[str, object]:
    code, city, country, price, transport, rating, pets, included = trip
    return {
        "code": code,
        "destination": city,
        "country": country,
        "nights": _NIGHTS,
        "total_price": price,
        "transport": transport,
        "rating": rating,
        "pets_allowed": pets,
        "included": list(included),
        "free_cancellation_until": "7 days before departure",
        "seats_left": 4,
    }
