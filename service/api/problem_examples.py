"""One true example of every problem that a call can answer with, by its code, and what many calls have in common."""

from __future__ import annotations

from service import errors
from service.errors import ServiceError
from zstci import errors as library
from zstci.errors import ZstciError

__all__ = ["BODY", "CANCEL", "CHANGES", "COMMON", "DETAILS", "FAULTS", "FILES", "QUERY", "STORED", "UPDATE", "Kinds"]

Kinds = tuple[type[ZstciError], ...]

COMMON: Kinds = (
    errors.Unauthenticated,
    errors.NotAllowed,
    errors.ForeignHost,
    errors.ForeignOrigin,
    errors.RateLimited,
    ServiceError,
)
"""Of every call that a key may be needed for."""
STORED: Kinds = (errors.DatabaseUnreachable, errors.DatabaseBehind)
CHANGES: Kinds = (*STORED, errors.StorageFull)
FILES: Kinds = (errors.StorageUnreachable, errors.CorruptBundle, library.CorruptSnapshot, library.UnsupportedSnapshot)
BODY: Kinds = (errors.InvalidForm, errors.TooSlow, errors.TooLarge, errors.InvalidRequest, errors.ShuttingDown)
_IMAGES: Kinds = (
    errors.BadImages,
    errors.EmptyImage,
    errors.NotAnImage,
    errors.DamagedImage,
    errors.TooManyPixels,
)
# The code of the fault that all bad images have, or bad_images where they differ.
QUERY: Kinds = (
    *BODY,
    *_IMAGES,
    errors.VersionNotLoaded,
    errors.TooManyImages,
    errors.UnsupportedMediaType,
    errors.NoClassesYet,
    errors.Busy,
    errors.TooLate,
    errors.StorageFull,
)
UPDATE: Kinds = (
    *BODY,
    errors.ClassExists,
    errors.TooManyImages,
    errors.TooManyClasses,
    errors.UnsupportedMediaType,
    errors.InvalidOption,
    errors.IdempotencyMismatch,
    errors.RejectedImages,
    errors.BadArchive,
    errors.WrongLayout,
    errors.DuplicateImage,
    errors.BadClassName,
    errors.BadUpload,
    errors.CheckTooLong,
    library.TooFewImages,
    library.LabelMismatch,
    library.UnknownStrategy,
    library.InvalidConfig,
    errors.Busy,
    *CHANGES,
    *FILES,
)
CANCEL: Kinds = (
    errors.UnknownUpdate,
    errors.UpdateEnded,
    errors.InvalidRequest,
    *CHANGES,
    errors.StorageUnreachable,
)

_NOT_ONE = "it is none of BMP, GIF, JPEG, PNG, WEBP"
_IMAGE = "nothing was answered, because of image 0: {}"
_TOO_LARGE = "it has more than 20971520 bytes; scale it down"
DETAILS: dict[type[ZstciError], str] = {
    ServiceError: "an unexpected error; the server's log has it under this request_id",
    errors.InvalidRequest: "/query/limit: Input should be greater than or equal to 1",
    errors.BadRequest: "There was an error parsing the body",
    errors.BadImages: f"nothing was answered, because of image 0: {_NOT_ONE}; image 3: it has 0 bytes",
    errors.EmptyImage: _IMAGE.format("it has 0 bytes"),
    errors.NotAnImage: _IMAGE.format(_NOT_ONE),
    errors.DamagedImage: _IMAGE.format("it is truncated or damaged (image file is truncated)"),
    errors.TooManyPixels: _IMAGE.format("12000 x 9000 is more than 50000000 pixels; scale it down"),
    errors.TooSlow: "nothing came for 30 s within the body; send it again",
    errors.TooLarge: "the body has more than 104857600 bytes; send less at once",
    errors.TooManyImages: "70 images are more than 64; send them in several queries",
    errors.TooManyClasses: "there are more than 10000 classes; send several updates",
    errors.UnsupportedMediaType: "text/plain is not read here; send image/* as the body, or files as "
    "multipart/form-data",
    errors.InvalidForm: "the form holds no file; with curl: -F files=@photo.jpg",
    errors.InvalidOption: "unknown on_bad_image 'ignore'; choose one of: reject, skip",
    errors.BadUpload: "there is no image in it; send an archive with class-name/image.jpg, or files with labels",
    errors.BadArchive: "'kiwi/../../x.jpg' points outside of the archive; pack it with names like class-name/image.jpg",
    errors.WrongLayout: "'007.jpg' lies in no folder; put each image into a folder named after its class: "
    "class-name/image.jpg",
    errors.DuplicateImage: "'007.jpg' is there twice in class 'kiwi'; remove or rename one",
    errors.BadClassName: "a class has an empty name; give it at least one character",
    errors.CheckTooLong: "after 3600 s only 150000 images are checked; send several updates",
    errors.RejectedImages: f"1 images cannot be used (the first is kiwi/7.jpg: {_TOO_LARGE}); mend or remove them, or "
    "send on_bad_image=skip to go on without them. Nothing was kept.",
    errors.Unauthenticated: "a key is needed: send Authorization: Bearer KEY, or set ZSTCI_KEY for the zstci command",
    errors.NotAllowed: "the key 'camera 7' has the scope query, and this call needs update",
    errors.ForeignHost: "without keys only localhost and 127.0.0.1 are answered; ask by one of these names, or make a "
    "key with: zstci keys create NAME",
    errors.ForeignOrigin: "another web page asks for this; name it in ZSTCI_CORS_ORIGINS, or send a key",
    errors.RateLimited: "more than 5 requests a second; wait a moment",
    errors.UnknownKey: "no key '0123456789ab'; GET /v1/keys and `zstci keys list` name them all",
    errors.KeyRevoked: "key 0123456789ab was revoked at 2026-11-18T03:00:00.000000Z; make a new one",
    errors.InvalidPrecondition: "If-Match must be the number of a version, such as 3, not 'newest'",
    errors.IdempotencyMismatch: "this key belongs to update 5f0c9d1e6f7f4a53b1f4a4f8f6a7c001, which had other content; "
    "use a new key for a new update",
    errors.VersionChanged: "version 4 is active by now, not 3; look at it and try again",
    errors.VersionNotLoaded: "version 1 is not loaded; loaded: 4 and 3. Ask one of those, ask without a version, or "
    "activate version 1 first",
    errors.UnknownVersion: "no version 7; there are 1 to 4",
    errors.UnknownClass: "no class has the id 'c0123456789abcde'; GET /v1/classes lists all",
    errors.UnknownUpdate: "no update 5f0c9d1e6f7f4a53b1f4a4f8f6a7c001; GET /v1/updates lists them",
    errors.ClassExists: "kiwi: known already, or in an update that waits; send on_existing_class=merge to add these "
    "images to what is known, or use another name",
    errors.NameTaken: "class c0123456789abcde is called 'kiwi' already, if only in other versions; rename it first",
    errors.LastClass: "'kiwi' (c0123456789abcde) is the only class, and a version needs one: first add another with "
    "POST /v1/updates, or activate a version that has others; to call it something else, rename it",
    errors.UpdateEnded: "update 5f0c9d1e6f7f4a53b1f4a4f8f6a7c001 is succeeded already; there is nothing left to cancel",
    errors.NoClassesYet: "no classes yet: add some with zstci add DIR, or POST /v1/updates",
    errors.Busy: "128 queries wait or run, and no more are taken; try again soon",
    errors.TooLate: "it waited 10.2 s for its turn, and 10 s are the limit; ask again in a moment",
    errors.ShuttingDown: "this server is shutting down, and the body is not here yet; send it again in a moment",
    errors.DatabaseUnreachable: "postgresql+psycopg://zstci:***@db/zstci does not answer (connection refused); see "
    "that it runs and that ZSTCI_DATABASE_URL is right",
    errors.DatabaseBehind: "the tables of postgresql+psycopg://zstci:***@db/zstci are missing or older than this "
    'program (relation "updates" does not exist); run: zstci migrate',
    errors.StorageFull: "there is no room left for the upload; free some, or send less at once",
    errors.StorageUnreachable: "s3://bucket/folder does not answer or refuses us (TimeoutError); see that it runs, and "
    "that ZSTCI_ARTIFACTS_URL and the keys in the environment are right",
    errors.CorruptBundle: "version 3's net.safetensors was altered (its sha256 does not match); restore the folder "
    "from a copy, or activate another version",
    library.CorruptSnapshot: "the active version's manifest.json cannot be read; restore its folder from a copy, or "
    "activate another version",
    library.UnsupportedSnapshot: "the active version was written in format 2, and this program reads 1; update it",
    library.InvalidConfig: "train.epochs must be at least 1, got 0",
    library.UnknownStrategy: "unknown regularizer 'lfw'; choose one of: ewc, finetune, frozen, lwf, mas",
    library.TooFewImages: "a new class needs at least 2 usable images; too few for: kiwi",
    library.LabelMismatch: "there are 3 files and 2 labels; send one label for each file",
}
_NO_IMAGE = {"pointer": "/images/0", "code": "not_an_image", "detail": _NOT_ONE}
FAULTS: dict[type[ZstciError], list[dict[str, str]]] = {
    errors.InvalidRequest: [
        {
            "pointer": "/query/limit",
            "code": "greater_than_equal",
            "detail": "Input should be greater than or equal to 1",
        }
    ],
    errors.BadImages: [_NO_IMAGE, {"pointer": "/images/3", "code": "empty_image", "detail": "it has 0 bytes"}],
    errors.NotAnImage: [_NO_IMAGE],
    errors.RejectedImages: [{"pointer": "/upload/kiwi/7.jpg", "code": "image_too_large", "detail": _TOO_LARGE}],
}
"""`errors` of those that have some; each bad image of an update has the code that it would have in a query."""
for _kind in (errors.EmptyImage, errors.DamagedImage, errors.TooManyPixels):
    FAULTS[_kind] = [
        {"pointer": "/images/0", "code": _kind.code, "detail": DETAILS[_kind].removeprefix(_IMAGE.format(""))}
    ]
