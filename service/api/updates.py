"""New classes, and what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from service.api.dependencies import CurrentParts
from service.api.guard import CurrentActor, Guarded, still_allowed
from service.api.incoming import Incoming
from service.api.pages import Cursor, Limit
from service.api.problem_examples import CANCEL, STORED, UPDATE
from service.api.problems import problems
from service.api.update_examples import BODY, EVENTS, LOCATION
from service.api.update_options import parse_labels, parse_options
from service.api.update_schemas import DryRun, UpdateEntry, UpdatePage, brief, dry_run, entry
from service.api.upload_form import Form, receive
from service.bootstrap import Parts
from service.config import Settings
from service.domain import Actor, Event, State
from service.errors import Busy, InvalidForm, InvalidOption, InvalidRequest, TooSlow, UnknownUpdate
from service.usecases.deadline import Deadline
from service.usecases.submit_update import Preview, Submitted

__all__ = ["router"]

router = APIRouter(prefix="/v1/updates", tags=["updates"], route_class=Guarded)

UpdateId = Annotated[
    str, Path(max_length=64, description="`id` of the update", examples=["5f0c9d1e6f7f4a53b1f4a4f8f6a7c001"])
]
_POLL_SECONDS = 0.25  # between two looks for new events
_OVER_TURNS = 20  # between two questions whether anything can still come: who has not missed the end is told by it

Answer = TypeVar("Answer")


@router.post(
    "",
    summary="Add classes",
    status_code=202,
    response_model=UpdateEntry,
    responses={
        200: {"model": DryRun, "description": "What it would do (`dry_run=true`); nothing was kept"},
        202: {"description": "Every image was checked, and the update is stored", **LOCATION},
        **problems(*UPDATE),
    },
    openapi_extra=BODY,
)
async def create_update(
    request: Request,
    parts: CurrentParts,
    actor: CurrentActor,
    dry_run: Annotated[bool, Query(description="Check everything, keep nothing", examples=[True])] = False,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="Any text of yours. The same key again answers with the same update instead of making another.",
            examples=["birds-2026-11-18"],
        ),
    ] = None,
) -> Response:
    """Learn new classes, or more of known ones, in the background. Queries go on meanwhile, on the version before.

    Every image is decoded before the answer. If one cannot be used, nothing is kept, and `errors` lists each bad image
    and why; with `on_bad_image=skip` the update goes on without them and reports them. When the update has ended, its
    images are deleted.
    """
    incoming: Incoming = request.app.state.incoming
    with parts.uploads:
        await asyncio.to_thread(parts.submitter.check_room)
        async with incoming.folder() as folder:
            form = await _received(request, folder / "form", parts.settings)
            result = await _taken(parts, actor, form, folder / "upload", dry_run, idempotency_key)
    if isinstance(result, Preview):
        return JSONResponse(_dry_run(result))
    location = str(request.url_for("get_update", update_id=result.update.id).path)
    return JSONResponse(entry(result.update).model_dump(mode="json"), 202, headers={"Location": location})


async def _received(request: Request, folder: FilePath, settings: Settings) -> Form:
    try:
        async with asyncio.timeout(settings.upload_seconds):
            return await receive(request, folder, settings)
    except TimeoutError as error:
        raise TooSlow(f"it took longer than {settings.upload_seconds:g} s to arrive; send several updates") from error


async def _taken(
    parts: Parts, actor: Actor, form: Form, target: FilePath, only_check: bool, key: str | None
) -> Preview | Submitted:
    """In a thread that nothing else waits for. A request that is given up ends only with its thread: the folder of the
    upload must not be deleted under its hands."""
    deadline = Deadline(parts.settings.upload_seconds)
    taking = asyncio.get_running_loop().run_in_executor(
        parts.upload_pool, _take, parts, actor, form, target, only_check, key, deadline
    )
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        deadline.stop()
        await asyncio.wait([taking])
        raise


def _take(
    parts: Parts, actor: Actor, form: Form, target: FilePath, only_check: bool, key: str | None, deadline: Deadline
) -> Preview | Submitted:
    options = parse_options(form.fields)
    archives = [file for file in form.files if file.field == "archive"]
    files = [file for file in form.files if file.field == "files"]
    stray = sorted({file.field for file in form.files} - {"archive", "files"})
    if stray:
        raise InvalidForm(f"files under {stray[0]!r}; send an archive as `archive`, or images as `files` with `labels`")
    if archives and (files or "labels" in form.fields):
        raise InvalidOption(
            "an archive has its classes in its folders; send either `archive`, or `files` with `labels`"
        )
    labels = parse_labels(form.fields)
    if only_check:
        return parts.submitter.preview(archives, files, labels, options, target, deadline=deadline)
    preview = parts.submitter.preview(archives, files, labels, options, target, key, deadline)
    if preview.earlier is not None:  # the same request again changes nothing
        return parts.submitter.submit(preview, options, target, key)
    with parts.audit.change(actor, "update_submitted") as change:
        submitted = parts.submitter.submit(preview, options, target, key)
        change.what = submitted.update.id
    return submitted


def _dry_run(preview: Preview) -> dict[str, Any]:
    return dry_run(preview).model_dump(mode="json")


# Not async from here on: these ask the database, so they belong in a thread.
@router.get("", summary="All updates", responses=problems(InvalidRequest, *STORED))
def list_updates(
    parts: CurrentParts,
    limit: Limit = 100,
    cursor: Cursor = None,
    state: Annotated[State | None, Query(description="Only those in this state", examples=["running"])] = None,
) -> UpdatePage:
    """Newest first, without the digests of their images."""
    found, following = parts.updates.list(limit, int(cursor) if cursor else None, state)
    return UpdatePage(data=[brief(update) for update in found], next_cursor=str(following) if following else None)


@router.get("/{update_id}", summary="One update", responses=problems(UnknownUpdate, InvalidRequest, *STORED))
def get_update(parts: CurrentParts, update_id: UpdateId) -> UpdateEntry:
    """How far it is, and what came of it. The process that tells an active version answers from it by then."""
    update = parts.updates.get(update_id)
    if update.version is not None or update.instant_version is not None:
        parts.follower.refresh()  # whoever reads that a version was made gets its answers from then on
    return entry(update)


@router.post("/{update_id}/cancel", summary="Stop an update", status_code=202, responses=problems(*CANCEL))
def cancel_update(parts: CurrentParts, actor: CurrentActor, update_id: UpdateId) -> UpdateEntry:
    """One that waits is cancelled at once; one at work within about two seconds of work. The active version stays as it
    is, but for the instant part of this update, which is taken back; and the images are deleted. A cancel that is
    accepted holds: no version comes of the update."""
    with parts.audit.change(actor, "update_cancelled", update_id):
        update = parts.updates.cancel(update_id)
    if update.state == "cancelled":
        parts.purger.purge(update_id)
        update = parts.updates.get(update_id)
    return entry(update)


async def _existing(parts: CurrentParts, update_id: UpdateId) -> AsyncIterator[str]:
    """Asked before the stream begins: afterwards it is too late for a 404, or to say that there are too many."""
    with parts.streams:
        await _asked(parts, parts.updates.get, update_id)
        yield update_id


async def _asked(parts: Parts, question: Callable[..., Answer], *arguments: object) -> Answer:
    """Streams share a few threads, so that however many there are nothing else has to wait for one."""
    return await asyncio.get_running_loop().run_in_executor(parts.stream_pool, question, *arguments)


@router.get(
    "/{update_id}/events",
    summary="Watch an update",
    response_class=EventSourceResponse,
    responses={200: EVENTS, **problems(UnknownUpdate, InvalidRequest, Busy, *STORED)},
)
async def watch_update(
    request: Request,
    parts: CurrentParts,
    update_id: Annotated[str, Depends(_existing)],
    last_event_id: Annotated[
        str | None,
        Header(
            pattern=r"^[0-9]{1,18}$",
            description="`id` of the last event you have: the stream goes on after it",
            examples=["42"],
        ),
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: `state`, `progress`, `metric`, and at the end `done`, after which the stream ends. Every
    event says which `attempt` it is of: after a crash the work begins anew, and so does its progress."""
    after, turn = int(last_event_id or 0), 0
    # A client of a server that goes away asks the next one, with Last-Event-ID; one whose key is revoked is refused.
    while not parts.stopping.is_set() and still_allowed(request):
        events = await _asked(parts, parts.updates.events, update_id, after)
        for event in events:
            after = event.id
            if event.kind == "done":
                await _asked(parts, parts.follower.refresh)  # whoever is told gets the new version's answers
            yield _sse(event)
            if event.kind == "done":
                return
        if not events:
            if turn % _OVER_TURNS == 0 and await _asked(parts, _over, parts, update_id, after):
                return
            turn += 1
            await asyncio.sleep(_POLL_SECONDS)


def _over(parts: Parts, update_id: str, after: int) -> bool:
    """Whoever asks for what comes after the end gets an empty stream, not an endless one."""
    update = parts.updates.get(update_id)
    return update.ended_at is not None and not parts.updates.events(update_id, after)


def _sse(event: Event) -> ServerSentEvent:
    data = {"attempt": event.attempt, "at": event.created_at, **event.data}
    return ServerSentEvent(data=data, event=event.kind, id=str(event.id))
