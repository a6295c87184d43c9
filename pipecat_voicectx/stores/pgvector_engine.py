"""MemoryEngine on Mem0 over PostgreSQL with pgvector: for more than one process, and for those who have it anyway.

Needs `psycopg[pool]`. The index of pgvector filters after it has searched, so that an owner with few records among
many would get too few hits; iterative scans (pgvector 0.8) are switched on for every connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.stores.blocking_engine import DEFAULT_TIMEOUT_SECS, EngineWorker
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.engine import ScrubReport
from pipecat_voicectx.stores.mem0_engine import COLLECTION_PREFIX, Mem0Base, build_memory
from pipecat_voicectx.stores.qdrant_engine import check_embedder

__all__ = ["PgvectorEngine"]


class PgvectorEngine(Mem0Base):
    """Mem0 over PostgreSQL. Blocks while it connects: construct it off the event loop.

    Args:
        embedder: Makes the vectors; its name and dimension name the table.
        connection_string: As psycopg takes it. The role must be allowed to `create extension vector`, or it is there.
        state_dir: Where mem0 keeps its own configuration file.
        prefix: Start of the table's name.
        timeout_secs: After which a call answers `Unavailable`; also the wait for a connection.

    Raises:
        UnavailableError: psycopg or mem0 is missing, or the server cannot be reached.
        EmbedderMismatchError: The database was filled with another embedder.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        connection_string: str,
        state_dir: Path,
        prefix: str = COLLECTION_PREFIX,
        timeout_secs: float = DEFAULT_TIMEOUT_SECS,
    ) -> None:
        super().__init__(
            name="mem0-pgvector",
            embedder=embedder,
            worker=EngineWorker(name="engine"),
            timeout_secs=timeout_secs,
        )
        self._memory: Any = None
        self._pool = _open_pool(connection_string, timeout_secs)
        try:
            self._table = check_embedder(embedder, prefix=prefix, existing=self._tables())
            self._memory = build_memory(
                embedder=embedder,
                provider="pgvector",
                vector_config={
                    "connection_pool": self._pool,
                    "collection_name": self._table,
                    "embedding_model_dims": embedder.dimension,
                    "hnsw": True,
                },
                state_dir=state_dir,
            )
        except BaseException:
            self._close_now()
            raise

    def _tables(self) -> list[str]:
        with self._pool.connection() as connection:
            rows = connection.execute("select table_name from information_schema.tables").fetchall()
        return [str(row[0]) for row in rows]

    def _scrub_now(self) -> ScrubReport:
        from psycopg import sql

        if self._table not in self._tables():
            return ScrubReport(scrubbed=True, note="the table was never made")
        with self._pool.connection() as connection:
            connection.set_autocommit(True)
            try:
                connection.execute(sql.SQL("vacuum full {}").format(sql.Identifier(self._table)))
            finally:
                connection.set_autocommit(False)
        return ScrubReport(
            scrubbed=True, note="the table was rewritten; the server's write-ahead log ages out by itself"
        )

    def _close_now(self) -> None:
        self._worker.join()
        if self._memory is not None:
            self._memory.close()
        self._pool.close()


def _open_pool(connection_string: str, timeout_secs: float) -> Any:
    try:
        import psycopg
        from psycopg_pool import ConnectionPool, PoolTimeout
    except ImportError as error:
        raise UnavailableError("PostgreSQL needs psycopg: pip install 'psycopg[binary,pool]'") from error

    def configure(connection: Any) -> None:
        connection.execute("set hnsw.iterative_scan = 'strict_order'")
        connection.commit()

    pool = ConnectionPool(
        connection_string,
        min_size=1,
        max_size=2,
        timeout=timeout_secs,
        kwargs={"connect_timeout": max(1, round(timeout_secs))},
        configure=configure,
        open=False,
    )
    try:
        pool.open(wait=True, timeout=timeout_secs)
    except (psycopg.Error, PoolTimeout) as error:
        pool.close()
        raise UnavailableError(f"PostgreSQL does not answer: {type(error).__name__}") from error
    return pool
