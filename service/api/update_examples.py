"""What the description says of an update's form, its place and its events, which FastAPI cannot derive."""

from __future__ import annotations

from typing import Any

from service.api.update_options import FIELDS

__all__ = ["BODY", "EVENTS", "LOCATION"]

_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
LOCATION: dict[str, Any] = {
    "headers": {
        "Location": {
            "description": "Where to ask about it",
            "schema": {"type": "string"},
            "example": "/v1/updates/5f0c9d1e6f7f4a53b1f4a4f8f6a7c001",
        }
    }
}
EVENTS: dict[str, Any] = {
    "description": "Events until the update has ended",
    "content": {
        "text/event-stream": {
            # Beside what FastAPI says of an event: each is one item of the stream.
            "itemSchema": {
                "description": "A server-sent event",
                "properties": {
                    "id": {"description": "Send the last one as Last-Event-ID to go on", "examples": ["42"]},
                    "event": {"description": "state, progress, metric or done", "examples": ["progress"]},
                    "data": {
                        "description": "JSON: the attempt, the time, and what is new",
                        "examples": ['{"attempt": 1, "at": "2026-11-18T03:00:03.000000Z", "progress": 0.43}'],
                    },
                    "retry": {"description": "Milliseconds to wait before asking again", "examples": [3000]},
                },
            },
            "example": 'id: 42\nevent: progress\ndata: {"attempt": 1, "at": "2026-11-18T03:00:03.000000Z", '
            '"stage": "embedding", "progress": 0.43, "eta_seconds": 4.1}\n\n',
        }
    },
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "`archive`: a zip or tar of class-name/image.jpg; or `files` and as many `labels`. Any other "
        "field is an option; settings that are not listed here go by their dotted names, such as `translation.ridge`.",
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "archive": {
                            **_FILES,
                            "description": "zip, tar, tar.gz, tar.bz2 or tar.xz; several are one update",
                            "examples": [["(bytes of birds.zip)"]],
                        },
                        "files": {
                            **_FILES,
                            "description": "Images, instead of an archive",
                            "examples": [["(bytes of 007.jpg)", "(bytes of 008.jpg)"]],
                        },
                        "labels": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "The class of each file, in their order",
                            "examples": [["kiwi", "kiwi"]],
                        },
                        **FIELDS,
                    },
                    "patternProperties": {r"^[a-z_]+(\.[a-z_]+)+$": {"description": "A setting by its dotted name"}},
                    "additionalProperties": False,
                },
                "examples": {
                    "archive": {
                        "summary": "An archive is all that is needed",
                        "value": {"archive": ["(bytes of birds.zip)"]},
                    },
                    "files": {
                        "summary": "Single images, and what they show",
                        "value": {
                            "files": ["(bytes of 007.jpg)", "(bytes of 008.jpg)"],
                            "labels": ["kiwi", "kiwi"],
                            "regularizer": "lwf",
                            "translation.ridge": "0.1",
                        },
                    },
                },
            }
        },
    }
}
