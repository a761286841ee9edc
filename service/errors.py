"""What the service can refuse, on top of the library's own tree. `code` is stable; `status` is for HTTP alone.

ZstciError
└── ServiceError
    ├── InvalidRequest         a parameter, a header or JSON that is not as described
    ├── BadRequest             JSON that cannot even be read; the framework says so
    ├── BadImage               one image cannot be used
    │   ├── EmptyImage         0 bytes
    │   ├── NotAnImage         no format that is read here
    │   ├── DamagedImage       truncated or broken inside
    │   ├── TooManyPixels      would cost too much memory to open
    │   └── ImageTooLarge      more bytes than one image may have
    ├── BadImages              which images of a query are bad, and why
    ├── TooSlow                a body that does not go on
    ├── TooLarge               more bytes than a body may have
    ├── TooManyImages          more images than one request may have
    ├── TooManyClasses         more classes than one update may have
    ├── UnsupportedMediaType   neither an image nor a form of images
    ├── InvalidForm            a multipart body that cannot be read, or lacks something
    ├── InvalidOption          a field of an update that has no such value
    ├── BadUpload              the images of an update cannot be learnt from as they are
    │   ├── BadArchive         no zip or tar, or a damaged or unsafe one
    │   ├── WrongLayout        not class-name/image.jpg
    │   ├── DuplicateImage     the same name twice
    │   ├── BadClassName       a name that cannot be shown safely
    │   ├── CheckTooLong       so much that looking at every image takes too long
    │   └── RejectedImages     images that cannot be used, each with its reason
    ├── Unauthenticated        no key, or none that is good
    ├── NotAllowed             a key of a lower scope
    ├── ForeignHost            a name that is not this machine's, where no key is needed
    ├── ForeignOrigin          another web page, where no key is needed
    ├── RateLimited            more requests than a key may send; comes with Retry-After
    ├── UnknownKey
    ├── KeyRevoked             a key that cannot come back
    ├── NoKeys                 a service that others could reach, and nobody has a key
    ├── InvalidPrecondition    an If-Match that is no version
    ├── IdempotencyMismatch    a key that was used for something else
    ├── VersionChanged         somebody else was faster
    ├── VersionNotLoaded       a version that exists, but does not answer any more
    ├── UnknownVersion
    ├── UnknownClass
    ├── UnknownUpdate
    ├── ClassExists            an update for new classes names a known one
    ├── NameTaken              a rename to the name of another class
    ├── LastClass              the only class cannot be deleted
    ├── UpdateEnded            there is nothing left to cancel
    ├── AttemptOver            another worker works on the update now
    ├── NoClassesYet           nothing has been learnt yet
    ├── Busy                   too much at once; comes with Retry-After
    ├── TooLate                a query that waited longer than it may
    ├── ShuttingDown           a body that still comes in when the process ends
    ├── DatabaseUnreachable
    ├── DatabaseBehind         its tables are older than this program
    ├── StorageFull            no room on the disk
    ├── StorageUnreachable     the place of the files does not answer, or refuses us
    ├── CorruptBundle          a version's files are damaged or incomplete
    ├── WorkerNameTaken        a worker of the same name is running
    └── ServiceUnreachable     the command line found no service at its address
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.domain import RejectedImage
from zstci.errors import ZstciError

__all__ = [
    "AttemptOver",
    "BadArchive",
    "BadClassName",
    "BadImage",
    "BadImages",
    "BadRequest",
    "BadUpload",
    "Busy",
    "CheckTooLong",
    "ClassExists",
    "CorruptBundle",
    "DamagedImage",
    "DatabaseBehind",
    "DatabaseUnreachable",
    "DuplicateImage",
    "EmptyImage",
    "ForeignHost",
    "ForeignOrigin",
    "IdempotencyMismatch",
    "ImageTooLarge",
    "InvalidForm",
    "InvalidOption",
    "InvalidPrecondition",
    "InvalidRequest",
    "KeyRevoked",
    "LastClass",
    "NameTaken",
    "NoClassesYet",
    "NoKeys",
    "NotAllowed",
    "NotAnImage",
    "RateLimited",
    "RejectedImages",
    "ServiceError",
    "ServiceUnreachable",
    "ShuttingDown",
    "StorageFull",
    "StorageUnreachable",
    "TooLarge",
    "TooLate",
    "TooManyClasses",
    "TooManyImages",
    "TooManyPixels",
    "TooSlow",
    "Unauthenticated",
    "UnknownClass",
    "UnknownKey",
    "UnknownUpdate",
    "UnknownVersion",
    "UnsupportedMediaType",
    "UpdateEnded",
    "VersionChanged",
    "VersionNotLoaded",
    "WorkerNameTaken",
    "WrongLayout",
]


class ServiceError(ZstciError):
    code, status, title = "internal_error", 500, "Something broke inside"
    retry_after: int | None = None  # seconds, for those that pass by themselves


class InvalidRequest(ServiceError):
    code, status, title = "invalid_request", 422, "The request is not valid"


class BadRequest(ServiceError):
    code, status, title = "bad_request", 400, "Bad Request"


class BadImage(ServiceError):
    code, status, title = "bad_image", 422, "An image cannot be used"


class EmptyImage(BadImage):
    code, title = "empty_image", "An image has no bytes"


class NotAnImage(BadImage):
    code, title = "not_an_image", "This is not an image"


class DamagedImage(BadImage):
    code, title = "damaged_image", "An image is truncated or damaged"


class TooManyPixels(BadImage):
    code, title = "too_many_pixels", "An image has too many pixels"


class ImageTooLarge(BadImage):
    code, title = "image_too_large", "An image has too many bytes"


class BadImages(ServiceError):
    """All bad images of one query at once, by position. Takes over the code when all are bad in the same way."""

    code, status, title = "bad_images", 422, "Some images cannot be used"

    def __init__(self, faults: Mapping[int, BadImage]) -> None:
        self.faults = dict(faults)
        kinds = {(fault.code, fault.title) for fault in self.faults.values()}
        if len(kinds) == 1:
            [(self.code, self.title)] = kinds
        listed = "; ".join(f"image {position}: {fault}" for position, fault in self.faults.items())
        super().__init__(f"nothing was answered, because of {listed}")


class TooSlow(ServiceError):
    code, status, title = "too_slow", 408, "The body does not go on"


class TooLarge(ServiceError):
    code, status, title = "too_large", 413, "Too many bytes"


class TooManyImages(ServiceError):
    code, status, title = "too_many_images", 413, "Too many images at once"


class TooManyClasses(ServiceError):
    code, status, title = "too_many_classes", 413, "Too many classes at once"


class UnsupportedMediaType(ServiceError):
    code, status, title = "unsupported_media_type", 415, "This content type is not read here"


class InvalidForm(ServiceError):
    code, status, title = "invalid_form", 400, "The form cannot be read"


class InvalidOption(ServiceError):
    code, status, title = "invalid_option", 422, "An option has no such value"


class BadUpload(ServiceError):
    code, status, title = "bad_upload", 422, "The upload cannot be learnt from"


class BadArchive(BadUpload):
    code, title = "bad_archive", "The archive cannot be used"


class WrongLayout(BadUpload):
    code, title = "wrong_layout", "Images must lie in class-name/image.jpg"


class DuplicateImage(BadUpload):
    code, title = "duplicate_image", "The same name is there twice"


class BadClassName(BadUpload):
    code, title = "bad_class_name", "A class cannot have this name"


class CheckTooLong(BadUpload):
    code, title = "check_too_long", "To check all of it takes too long"


class RejectedImages(BadUpload):
    """Every bad image of an upload, by its name in it."""

    code, title = "rejected_images", "Some images cannot be used"

    def __init__(self, rejected: Sequence[RejectedImage]) -> None:
        self.rejected = tuple(rejected)
        first = self.rejected[0]
        super().__init__(
            f"{len(self.rejected)} images cannot be used (the first is {first.name}: {first.detail}); mend or remove "
            "them, or send on_bad_image=skip to go on without them. Nothing was kept."
        )


class Unauthenticated(ServiceError):
    code, status, title = "unauthenticated", 401, "A key is needed"


class NotAllowed(ServiceError):
    code, status, title = "not_allowed", 403, "The key does not allow this"


class ForeignHost(ServiceError):
    code, status, title = "foreign_host", 403, "The address is not this machine's own"


class ForeignOrigin(ServiceError):
    code, status, title = "foreign_origin", 403, "Another web page may not do this"


class RateLimited(ServiceError):
    code, status, title = "rate_limited", 429, "Too many requests"


class UnknownKey(ServiceError):
    code, status, title = "unknown_key", 404, "No such key"


class KeyRevoked(ServiceError):
    code, status, title = "key_revoked", 409, "The key was revoked"


class NoKeys(ServiceError):
    code, title = "no_keys", "Others could reach the service, and there is no key"


class InvalidPrecondition(ServiceError):
    code, status, title = "invalid_if_match", 400, "If-Match is no version"


class IdempotencyMismatch(ServiceError):
    code, status, title = "idempotency_mismatch", 422, "This Idempotency-Key was used for something else"


class VersionChanged(ServiceError):
    code, status, title = "version_changed", 412, "Another version is active by now"


class VersionNotLoaded(ServiceError):
    code, status, title = "version_not_loaded", 409, "This version does not answer any more"


class UnknownVersion(ServiceError):
    code, status, title = "unknown_version", 404, "No such version"


class UnknownClass(ServiceError):
    code, status, title = "unknown_class", 404, "No such class"


class UnknownUpdate(ServiceError):
    code, status, title = "unknown_update", 404, "No such update"


class ClassExists(ServiceError):
    code, status, title = "class_exists", 409, "A class of this name exists"


class NameTaken(ServiceError):
    code, status, title = "name_taken", 409, "Another class has this name"


class LastClass(ServiceError):
    code, status, title = "last_class", 409, "The only class cannot be deleted"


class UpdateEnded(ServiceError):
    code, status, title = "update_ended", 409, "The update has ended"


class AttemptOver(ServiceError):
    code, status, title = "attempt_over", 409, "Another worker works on the update now"


class NoClassesYet(ServiceError):
    code, status, title = "no_classes_yet", 503, "Nothing has been learnt yet"

    def __init__(self) -> None:
        super().__init__("no classes yet: add some with zstci add DIR, or POST /v1/updates")


class Busy(ServiceError):
    code, status, title = "busy", 503, "Too much at once"
    retry_after = 1


class TooLate(ServiceError):
    code, status, title = "too_late", 503, "The query waited too long"
    retry_after = 1


class ShuttingDown(ServiceError):
    code, status, title = "shutting_down", 503, "The server is shutting down"
    retry_after = 5


class DatabaseUnreachable(ServiceError):
    code, status, title = "database_unreachable", 503, "The database does not answer"
    retry_after = 5


class DatabaseBehind(ServiceError):
    code, status, title = "database_behind", 503, "The database's tables are older than this program"


class StorageFull(ServiceError):
    code, status, title = "storage_full", 507, "No room left"


class StorageUnreachable(ServiceError):
    code, status, title = "storage_unreachable", 503, "The storage of the files does not answer"
    retry_after = 5


class CorruptBundle(ServiceError):
    code, status, title = "corrupt_bundle", 503, "A version's files are damaged"


class WorkerNameTaken(ServiceError):
    code, title = "worker_name_taken", "A worker of this name is running"


class ServiceUnreachable(ServiceError):
    code, title = "service_unreachable", "No service there"
