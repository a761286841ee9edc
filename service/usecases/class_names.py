"""Names of classes come from strangers and are shown to others: none may hide, reorder or break the text around it."""

from __future__ import annotations

import unicodedata

from service.errors import BadClassName

__all__ = ["LONGEST", "clean", "is_hidden", "spelt_out"]

LONGEST = 200
# Control and format characters (all that turn the direction of writing are among them), halves of a character, line
# and paragraph separators. The two joiners are format characters too, but Persian, Hindi and many emoji need them.
_REFUSED = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
# Letters and signs that look like nothing at all: fillers, a joiner of graphemes, the Braille cell without dots.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"


def clean(name: str) -> str:
    """The name in the one form that is compared and stored: NFC, no space around it."""
    # First the length: composing megabytes of accents is slow.
    if len(name) > 4 * LONGEST:
        raise _too_long(name)
    name = unicodedata.normalize("NFC", name).strip()
    if not name.strip(_JOINERS + " "):
        raise BadClassName("a class has an empty name; give it at least one character")
    if len(name) > LONGEST:
        raise _too_long(name)
    if "/" in name or "\\" in name or name in (".", ".."):
        raise BadClassName(f"{name!r} reads like a path; name the class without slashes, and not just dots")
    for character in name:
        if is_hidden(character):
            raise BadClassName(
                f"'{spelt_out(name)}' holds U+{ord(character):04X}, which is invisible; take it out of the name"
            )
    return name


def spelt_out(text: str) -> str:
    """With everything that cannot be seen, or would steer a terminal, as an escape."""
    return "".join(
        character.encode("unicode_escape").decode() if is_hidden(character) else character for character in text
    )


def is_hidden(character: str) -> bool:
    """Whether it cannot be seen, or changes what is seen of others."""
    if character in _JOINERS:
        return False
    return character in _BLANK or unicodedata.category(character) in _REFUSED


def _too_long(name: str) -> BadClassName:
    return BadClassName(f"{name[:40]!r}... has {len(name)} characters; a name of a class has at most {LONGEST}")
