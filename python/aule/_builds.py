"""Builds that run once, however many threads ask for them, and tell of themselves on a terminal and in the log "aule"."""

from __future__ import annotations

import logging
import sys
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable, Hashable, TypeVar

from ._errors import Error

T = TypeVar("T")
log = logging.getLogger("aule")
LONG = 5.0  # seconds from which on a build is a warning in the log


def tell_of(what: str, since: float) -> None:
    """Says in the log that something took long that began at [since], of time.monotonic()."""
    seconds = time.monotonic() - since
    if seconds >= LONG:
        log.warning("%s took %.0f s", what, seconds)


class Progress:
    """One line on the terminal while something is compiled: what, and how much else. Nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[str] = []

    def begin(self, what: str) -> None:
        with self._lock:
            self._running.append(what)
            self._show()

    def end(self, what: str) -> None:
        with self._lock:
            self._running.remove(what)
            self._show()

    def _show(self) -> None:
        stream = sys.stderr
        if stream is None or not stream.isatty():
            return
        more = len(self._running) - 1
        line = f"aule: compiling {self._running[0]}" + (f" and {more} more" if more else "") if self._running else ""
        stream.write("\r\033[K" + line)
        stream.flush()


class Builds:
    """Builds in flight by key. Those for different keys run in parallel, in the threads that ask for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[Any]] = {}
        self._progress = Progress()

    def once(self, key: Hashable, what: str, make: Callable[[Callable[[], None]], T]) -> T:
        """What [make] returns, or what another thread's call for that key returns that is running already.

        Args:
            what: for the line on the terminal.
            make: calls its argument when the work turns out to take time.
        """
        with self._lock:
            future = self._running.get(key)
            if future is None:
                mine = self._running[key] = Future()
        if future is not None:
            return future.result()
        told: list[str] = []
        since = time.monotonic()

        def slow() -> None:
            told.append(what)
            log.info("compiling %s", what)
            self._progress.begin(what)

        try:
            result = make(slow)
        except BaseException as error:
            self._finish(key, told)
            mine.set_exception(error if isinstance(error, Exception) else Error(f"{what}: interrupted", "unknown"))
            raise
        self._finish(key, told)
        tell_of(f"compiling {what}", since)
        mine.set_result(result)
        return result

    def _finish(self, key: Hashable, told: list[str]) -> None:
        with self._lock:
            del self._running[key]
        for what in told:
            self._progress.end(what)


builds = Builds()
