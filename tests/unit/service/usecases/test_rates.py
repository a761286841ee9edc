import pytest

from service.errors import RateLimited
from service.usecases.rates import Rates


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def taken(rates: Rates, who: str, tries: int) -> int:
    done = 0
    for _ in range(tries):
        try:
            rates.take(who)
        except RateLimited:
            continue
        done += 1
    return done


def test_a_burst_is_let_through_and_then_the_steady_rate(clock):
    rates = Rates(2.0, 5, clock)

    assert taken(rates, "camera", 20) == 5
    clock.now += 1
    assert taken(rates, "camera", 20) == 2
    clock.now += 3600
    assert taken(rates, "camera", 20) == 5, "more than a burst is never saved up"


def test_one_key_does_not_use_up_what_another_has(clock):
    rates = Rates(1.0, 3, clock)

    assert [taken(rates, who, 10) for who in ("camera", "robot")] == [3, 3]


def test_waiting_as_long_as_told_is_enough_and_being_refused_costs_nothing(clock):
    rates = Rates(0.25, 1, clock)
    rates.take("camera")
    for _ in range(50):
        with pytest.raises(RateLimited) as refused:
            rates.take("camera")
    assert refused.value.retry_after == 4
    clock.now += refused.value.retry_after

    rates.take("camera")


def test_no_rate_is_no_limit(clock):
    assert taken(Rates(0.0, 1, clock), "camera", 1000) == 1000
