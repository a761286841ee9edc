import pytest

from service.loopback import host_of, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"])
def test_these_are_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "128.0.0.1",
        "127.0.0.1.example",
        "localhost.example",
        "a.localhost",
        "127.1",
        "*",
    ],
)
def test_these_are_not_or_need_not_be(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("authority", "host"),
    [("localhost:8000", "localhost"), ("[::1]:8000", "::1"), ("[::1]", "::1"), ("127.0.0.1", "127.0.0.1"), ("", "")],
)
def test_a_port_is_no_part_of_a_host(authority, host):
    assert host_of(authority) == host
