from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from service.domain import Upload, UploadedImage
from service.usecases.hold_out import split


def upload(counts):
    return Upload(
        tuple(
            UploadedImage(f"{name}/{i}.png", name, f"{name}-{i}.png", "0" * 64, 1)
            for name, count in counts.items()
            for i in range(count)
        )
    )


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 40), min_size=1), st.floats(0, 0.5), st.integers(0, 9))
def test_every_image_is_on_one_side_and_two_are_always_left_to_learn_from(counts, share, seed):
    learnt, held = split(upload(counts), share, seed)

    assert sorted(i.name for i in learnt + held) == sorted(i.name for i in upload(counts).images)
    left, asked = Counter(i.class_name for i in learnt), Counter(i.class_name for i in held)
    for name, count in counts.items():
        assert left[name] >= min(2, count)
        if share > 0 and count > 2:
            assert 1 <= asked[name] <= max(1, round(share * count))
        if share == 0 or count <= 2:
            assert asked[name] == 0


def test_the_split_depends_on_the_seed_alone():
    images = upload({"a": 20, "b": 20})

    assert split(images, 0.2, 1) == split(images, 0.2, 1)
    assert split(images, 0.2, 1) != split(images, 0.2, 2)
