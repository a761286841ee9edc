"""What the service can refuse, on top of the library's own tree. `code` is stable; `status` is for HTTP alone.

ZstciError
└── ServiceError
    ├── BadImage               one image of a query cannot be used
    │   ├── EmptyImage         0 bytes
    │   ├── NotAnImage         no format that is read here
    │   ├── DamagedImage       truncated or broken inside
    │   └── TooManyPixels      would cost too much memory to open
    ├── BadImages              which images of a query are bad, and why
    ├── TooLarge               more bytes than a query may have
    ├── TooManyImages          more images than a query may have
    ├── UnsupportedMediaType   neither an image nor a form of images
    ├── InvalidForm            a multipart body that cannot be read, or holds no image
    ├── InvalidPrecondition    an If-Match that is no version
    ├── VersionChanged         somebody else was faster
    ├── UnknownVersion
    ├── UnknownClass
    ├── NoClassesYet           nothing has been learnt yet
    ├── AlreadyLearning        another process learns in the same home
    └── DamagedHome            the folder of versions holds something that is not ours
"""

from __future__ import annotations

from collections.abc import Mapping

from zstci.errors import ZstciError

__all__ = [
    "AlreadyLearning",
    "BadImage",
    "BadImages",
    "DamagedHome",
    "DamagedImage",
    "EmptyImage",
    "InvalidForm",
    "InvalidPrecondition",
    "NoClassesYet",
    "NotAnImage",
    "ServiceError",
    "TooLarge",
    "TooManyImages",
    "TooManyPixels",
    "UnknownClass",
    "UnknownVersion",
    "UnsupportedMediaType",
    "VersionChanged",
]


class ServiceError(ZstciError):
    code, status, title = "internal_error", 500, "Something broke inside"


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


class TooLarge(ServiceError):
    code, status, title = "too_large", 413, "Too many bytes"


class TooManyImages(ServiceError):
    code, status, title = "too_many_images", 413, "Too many images in one query"


class UnsupportedMediaType(ServiceError):
    code, status, title = "unsupported_media_type", 415, "Send an image, or a form of images"


class InvalidForm(ServiceError):
    code, status, title = "invalid_form", 400, "The form cannot be read"


class InvalidPrecondition(ServiceError):
    code, status, title = "invalid_if_match", 400, "If-Match is no version"


class VersionChanged(ServiceError):
    code, status, title = "version_changed", 412, "Another version is active by now"


class UnknownVersion(ServiceError):
    code, status, title = "unknown_version", 404, "No such version"


class UnknownClass(ServiceError):
    code, status, title = "unknown_class", 404, "No such class"


class NoClassesYet(ServiceError):
    code, status, title = "no_classes_yet", 503, "Nothing has been learnt yet"

    def __init__(self) -> None:
        super().__init__("no classes yet: run zstci learn DIR")


class AlreadyLearning(ServiceError):
    code, status, title = "already_learning", 409, "Another update is at work"


class DamagedHome(ServiceError):
    code, title = "damaged_home", "The folder of versions is damaged"
