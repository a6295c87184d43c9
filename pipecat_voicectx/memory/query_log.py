"""The bounded log of what queries activated; emergence reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import cast

from pipecat_voicectx.errors import BadInputError, UsageError

__all__ = ["QueryLog"]

QUERY_LOG_SCHEMA_VERSION = 1
# Chosen: some ten calls of twenty turns; patterns older than that are no longer how the memory is used.
DEFAULT_MAX_QUERIES = 200


class QueryLog:
    """The entities that each of the latest queries activated. Queries that activated none are not kept.

    Holds names of entities, never words of a query.
    """

    def __init__(self, *, max_queries: int = DEFAULT_MAX_QUERIES) -> None:
        if max_queries < 1:
            raise UsageError("max_queries must be at least 1")
        self._queries: deque[frozenset[str]] = deque(maxlen=max_queries)

    def __len__(self) -> int:
        return len(self._queries)

    def add(self, entities: Collection[str]) -> None:
        """Notes one query; the oldest goes when the log is full."""
        if entities:
            self._queries.append(frozenset(entities))

    def touching(self, entities: Collection[str]) -> list[frozenset[str]]:
        """The queries that activated any of `entities`, oldest first."""
        wanted = frozenset(entities)
        return [query for query in self._queries if not wanted.isdisjoint(query)]

    def forget(self, entities: Iterable[str]) -> None:
        """Takes entities out of every query, when what they stood for was erased."""
        gone = frozenset(entities)
        kept = [query - gone for query in self._queries]
        self._queries.clear()
        self._queries.extend(query for query in kept if query)

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version."""
        return {
            "schema": QUERY_LOG_SCHEMA_VERSION,
            "max_queries": self._queries.maxlen,
            "queries": [sorted(query) for query in self._queries],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> QueryLog:
        """The log that `to_json` wrote.

        Raises:
            BadInputError: Not a query log, or a schema newer than this version reads.
        """
        try:
            schema = data.get("schema")
            if schema != QUERY_LOG_SCHEMA_VERSION:
                raise BadInputError(
                    f"query log has schema {schema!r}; this version reads {QUERY_LOG_SCHEMA_VERSION}"
                )
            log = cls(max_queries=int(cast(int, data["max_queries"])))
            for query in cast(list[list[str]], data["queries"]):
                log.add([str(name) for name in query])
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise BadInputError(f"not a query log: {type(error).__name__}") from error
        return log
