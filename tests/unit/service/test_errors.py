import inspect

from service import errors
from service.domain import RejectedImage
from service.errors import BadImages, EmptyImage, NotAnImage, RejectedImages, ServiceError, TooManyPixels
from zstci import errors as library_errors
from zstci.errors import ZstciError

OURS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ServiceError)]


def test_every_error_has_a_code_of_its_own():
    theirs = [kind for _, kind in inspect.getmembers(library_errors, inspect.isclass) if issubclass(kind, ZstciError)]
    codes = [kind.code for kind in [*OURS, *theirs]]

    assert len(codes) == len(set(codes))


def test_every_error_is_exported_and_drawn_in_the_tree():
    names = [kind.__name__ for kind in OURS]

    assert sorted(names) == errors.__all__
    assert [name for name in names if name not in (errors.__doc__ or "")] == []


def test_images_that_are_bad_in_the_same_way_lend_their_code():
    assert BadImages({0: EmptyImage("a"), 2: EmptyImage("b")}).code == "empty_image"


def test_images_that_are_bad_in_different_ways_are_all_named():
    error = BadImages({0: NotAnImage("no"), 3: TooManyPixels("big")})

    assert error.code == "bad_images"
    assert str(error) == "nothing was answered, because of image 0: no; image 3: big"


def test_every_refusal_of_the_service_has_a_status_and_a_title():
    for kind in OURS:
        assert 400 <= kind.status < 600, kind
        assert kind.title, kind
    assert len({kind.title for kind in OURS if kind.title != ServiceError.title}) >= len(OURS) - 2


def test_rejected_images_say_how_many_and_what_to_do():
    error = RejectedImages([RejectedImage("a/1.png", "empty_image", "it has 0 bytes"), RejectedImage("b", "c", "d")])

    assert str(error).startswith("2 images cannot be used (the first is a/1.png: it has 0 bytes)")
    assert "on_bad_image=skip" in str(error)
