"""/docs without the internet: Swagger UI from the PyPI package `fastapi-swagger`, where FastAPI's own page asks a CDN.

Of that package only the files are used: its page starts with an inline script, which a strict policy forbids.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from service.api.trying import for_trying

__all__ = ["add_docs"]

# Relative to /docs, so that it works behind any prefix of a proxy as well.
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="docs/assets/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript; <a href="openapi.json">openapi.json</a> says the same.</noscript>
<script src="docs/assets/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""

_OPTIONS: dict[str, Any] = {
    "url": "docs/openapi.json",
    "dom_id": "#swagger-ui",
    "deepLinking": True,
    "displayRequestDuration": True,
    "tryItOutEnabled": True,  # one click less for somebody who is here to try
    "defaultModelsExpandDepth": 0,
    "validatorUrl": None,  # or Swagger UI sends the description to validator.swagger.io
}

# Swagger UI sets styles inline and draws its icons from data: URLs; nothing else is let in.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


def add_docs(app: FastAPI) -> None:
    """For an app that was made with docs_url=None and redoc_url=None."""
    page = _PAGE.format(title=escape(f"{app.title}: try it"))
    start = f"window.ui = SwaggerUIBundle({json.dumps(_OPTIONS, indent=2)});\n"

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    @app.get("/docs/openapi.json", include_in_schema=False)
    async def docs_openapi() -> dict[str, Any]:
        return for_trying(app.openapi())

    @app.get("/docs/start.js", include_in_schema=False)
    async def docs_start() -> Response:
        return Response(start, media_type="text/javascript")

    app.mount("/docs/assets", StaticFiles(directory=str(files("fastapi_swagger") / "resources")), name="docs_assets")
