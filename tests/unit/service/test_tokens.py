import re

from service.tokens import digest, id_of, new_id, new_token, redacted


def test_a_key_has_256_random_bits_and_carries_its_id():
    key_id = new_id()
    tokens = {new_token(key_id) for _ in range(100)}

    assert len(tokens) == 100
    for token in tokens:
        assert re.fullmatch(r"zstci_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", token)
        assert id_of(token) == key_id
    assert len({digest(token) for token in tokens}) == 100


def test_a_key_is_cut_down_to_its_id_wherever_it_stands():
    token = new_token("0123456789ab")

    assert redacted(f"a {token}, {token}!") == "a zstci_0123456789ab_..., zstci_0123456789ab_...!"
    assert redacted("zstci_active_version 3") == "zstci_active_version 3"
