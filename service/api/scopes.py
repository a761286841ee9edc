"""Which call needs which scope. All calls stand here; one that does not keeps the app from starting."""

from __future__ import annotations

from service.domain import Scope

__all__ = ["NEEDED", "needed"]

# None: open to all. Probes have no key, and the docs hold nothing that the source code does not tell.
NEEDED: dict[tuple[str, str], Scope | None] = {
    ("POST", "/v1/classify"): "query",
    ("POST", "/v1/search"): "query",
    ("POST", "/v1/embeddings"): "query",
    ("GET", "/v1/classes"): "query",
    ("GET", "/v1/classes/{class_id}"): "query",
    ("GET", "/v1/updates"): "query",
    ("GET", "/v1/updates/{update_id}"): "query",
    ("GET", "/v1/updates/{update_id}/events"): "query",
    ("GET", "/v1/versions"): "query",
    ("GET", "/v1/versions/{number}"): "query",
    ("GET", "/metrics"): "query",
    ("POST", "/v1/updates"): "update",
    ("POST", "/v1/updates/{update_id}/cancel"): "update",
    ("PATCH", "/v1/classes/{class_id}"): "update",
    ("DELETE", "/v1/classes/{class_id}"): "update",
    ("POST", "/v1/versions/{number}/activate"): "admin",
    ("GET", "/v1/keys"): "admin",
    ("POST", "/v1/keys"): "admin",
    ("POST", "/v1/keys/{key_id}/rotate"): "admin",
    ("DELETE", "/v1/keys/{key_id}"): "admin",
    ("GET", "/v1/audit"): "admin",
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/docs"): None,
    ("GET", "/docs/start.js"): None,
    ("GET", "/docs/openapi.json"): None,
}


def needed(method: str, path: str) -> Scope | None:
    """`path` as in the route: `/v1/classes/{class_id}`."""
    return NEEDED.get((method, path), "admin")
