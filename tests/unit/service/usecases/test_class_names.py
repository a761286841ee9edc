import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BadClassName
from service.usecases.class_names import LONGEST, clean


@pytest.mark.parametrize(
    "name",
    [
        "dog",
        "Rusty Blackbird",
        "011.Rusty_Blackbird",
        '<b onclick=alert()> & "quoted"; DROP TABLE classes',
        "Ἀθηνᾶ",
        "犬",
        "نمی\u200cخواهم",  # noqa: RUF001 - Persian needs its joiner
        "👩\u200d🚀",
        "...",
        "x" * LONGEST,
    ],
)
def test_a_name_in_any_script_stays_as_it_is(name):
    assert clean(name) == unicodedata.normalize("NFC", name)


def test_two_spellings_of_one_name_become_one():
    assert clean("Zu\u0308rich") == clean("Zürich") == clean(" Zürich\n") == "Zürich"


@pytest.mark.parametrize("name", ["", " ", "\t", "\u200d", "\u200d \u200c", "\u3000"])
def test_a_name_of_nothing_is_refused(name):
    with pytest.raises(BadClassName, match="empty"):
        clean(name)


@pytest.mark.parametrize("length", [LONGEST + 1, 1_000_000])
def test_a_long_name_is_refused_by_a_short_message(length):
    with pytest.raises(BadClassName, match=f"at most {LONGEST}") as caught:
        clean("e\u0301" * length)

    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["a/b", "a\\b", "/etc", "..", ".", "C:\\x"])
def test_a_path_is_no_name(name):
    with pytest.raises(BadClassName, match="path"):
        clean(name)


@pytest.mark.parametrize(
    "code",
    [
        *(0x00, 0x0A, 0x1B, 0x7F, 0x85, 0xAD, 0x200B, 0x2028, 0xD800, 0xFEFF, 0xE0041),
        *(0x034F, 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0),  # letters and signs of nothing
        *(0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # these turn the text around them
    ],
)
def test_what_cannot_be_seen_is_refused_and_named(code):
    with pytest.raises(BadClassName, match=f"U\\+{code:04X}") as caught:
        clean(f"do{chr(code)}g")

    assert chr(code) not in str(caught.value)


@given(st.text(max_size=300))
def test_a_cleaned_name_is_clean(name):
    try:
        cleaned = clean(name)
    except BadClassName:
        return
    assert clean(cleaned) == cleaned
    assert 1 <= len(cleaned) <= LONGEST
    cleaned.encode("utf-8")
