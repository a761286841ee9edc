"""Numbers for Prometheus. Those of queries are counted as they happen, the others are asked when they are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.api.dependencies import CurrentParts
from service.api.guard import Guarded
from service.api.refusals import REFUSALS
from service.bootstrap import Parts
from service.errors import ServiceError

__all__ = ["BATCH_SIZE", "REQUEST_SECONDS", "router"]

_QUERIES = CollectorRegistry()
REQUEST_SECONDS = Histogram(
    "zstci_request_duration_seconds",
    "Time of a query; stage `all` includes the wait for a thread",
    ["op", "stage"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=_QUERIES,
)
BATCH_SIZE = Histogram(
    "zstci_batch_size", "Images in a query", buckets=(1, 2, 4, 8, 16, 32, 64, 128), registry=_QUERIES
)

_EXAMPLE = {
    "schema": {"type": "string"},
    "example": "# HELP zstci_active_version The version that answers here\n# TYPE zstci_active_version gauge\n"
    "zstci_active_version 3.0\n",
}

router = APIRouter(tags=["health"], route_class=Guarded)


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": _EXAMPLE}}},
)
def metrics(parts: CurrentParts) -> Response:
    """In Prometheus' text format. Queries are those of this process; updates are those of the whole service."""
    registry = CollectorRegistry()
    registry.register(_State(parts))
    text = b"".join(map(generate_latest, (_QUERIES, REFUSALS, registry)))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


class _State(Collector):
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        parts = self._parts
        yield GaugeMetricFamily("zstci_active_version", "The version that answers here", parts.slot.version or 0)
        prototypes = len(parts.slot.current.ids) if parts.slot.version else 0
        yield GaugeMetricFamily("zstci_prototypes", "Classes of the version that answers", prototypes)
        yield GaugeMetricFamily("zstci_queries_in_flight", "Queries that wait or run", parts.gate.inside)
        yield GaugeMetricFamily(
            "zstci_swap_duration_seconds", "Loading, checking and warming the last version", parts.follower.load_seconds
        )
        yield GaugeMetricFamily(
            "zstci_version_not_loaded",
            "1 when the active version could not be loaded",
            float(bool(parts.follower.problem)),
        )
        try:
            yield from self._updates()
        except ServiceError:
            yield GaugeMetricFamily("zstci_database_up", "1 when the database answers", 0.0)
        else:
            yield GaugeMetricFamily("zstci_database_up", "1 when the database answers", 1.0)

    def _updates(self) -> Iterator[Metric]:
        states = GaugeMetricFamily("zstci_updates", "Updates by their state", labels=["state"])
        for state, count in self._parts.updates.counts().items():
            states.add_metric([state], count)
        yield states
        running, _ = self._parts.updates.list(1, None, "running")
        ratio = running[0].progress if running else 0.0
        yield GaugeMetricFamily("zstci_update_progress_ratio", "Of the update at work; 0 when there is none", ratio)
        if self._parts.slot.version:
            translation = self._parts.versions.get(self._parts.slot.version).facts.translation
            residual = translation.get("residual")
            if isinstance(residual, int | float):
                yield GaugeMetricFamily("zstci_translator_residual", "Of the version that answers", residual)
