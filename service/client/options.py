"""What `add` takes by name, and the form that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from service.client.upload import Form, Source, archive_of

__all__ = ["AddOptions", "form_of"]

_FIELDS = (
    "regularizer",
    "translator",
    "classifier",
    "preset",
    "on_bad_image",
    "on_existing_class",
    "activate",
    "instant",
    "holdout",
)


class AddOptions(TypedDict, total=False):
    """What is not given is as the service has it by default. `overrides` are single settings, such as
    `{"train.epochs": 5}`.

    The key makes a repeated request the same update: give your own where your program may be started again.
    `on_upload` is told the bytes sent and the bytes in all."""

    regularizer: str | None
    translator: str | None
    classifier: str | None
    preset: str | None
    on_bad_image: Literal["reject", "skip"] | None
    on_existing_class: Literal["reject", "merge"] | None
    activate: Literal["auto", "manual"] | None
    instant: bool | None
    holdout: float | None
    overrides: Mapping[str, Any] | None
    idempotency_key: str | None
    on_upload: Callable[[int, int], None] | None


def form_of(source: Source, options: AddOptions) -> Form:
    unknown = sorted(set(options) - set(AddOptions.__annotations__))
    if unknown:
        raise TypeError(f"add() has no option {unknown[0]!r}; it takes: {', '.join(AddOptions.__annotations__)}")
    named = {name: options.get(name) for name in _FIELDS}
    fields = {
        **(options.get("overrides") or {}),
        **{name: value for name, value in named.items() if value is not None},
    }
    return Form(fields, archive_of(source), options.get("on_upload"))
