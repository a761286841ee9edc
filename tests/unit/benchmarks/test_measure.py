"""Only the arithmetic and the order of turns: no test here depends on how fast anything is."""

from collections.abc import Iterator

import pytest

from tests.benchmarks.measure import Contest, Duel, Lap, Stopwatch, judge, machine, race, repeat


def steps(size: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += size


def fake_watch(wall: float, cpu: float) -> Stopwatch:
    """Clocks that move on by a fixed step whenever they are read."""
    return Stopwatch(steps(wall).__next__, steps(cpu).__next__)


def contest(target: float | None, baseline: str | None = "slow") -> Contest:
    return Contest("speed", {}, (Duel("fast over slow", "fast", baseline, "items", target),))


def test_a_lap_holds_what_both_clocks_say_since_the_last_start():
    watch = fake_watch(wall=2.0, cpu=1.0)

    watch.start()

    assert watch.stop(5) == Lap(5, wall=2.0, cpu=1.0)
    assert watch.stop(6) == Lap(6, wall=4.0, cpu=2.0)


def test_every_contestant_has_one_lap_in_every_round_and_the_order_turns_round():
    turns: list[str] = []

    def contestant(name: str):
        def lap(watch: Stopwatch) -> Lap:
            turns.append(name)
            return Lap(len(turns), 1.0, 1.0)

        return lap

    done: list[None] = []
    laps = race({name: contestant(name) for name in "abc"}, 2, lambda: done.append(None))

    assert "".join(turns) == "abc" + "cba" + "abc"
    assert {name: [lap.items for lap in own] for name, own in laps.items()} == {"a": [6, 7], "b": [5, 8], "c": [4, 9]}
    assert len(done) == 9  # the warm-up is part of the progress, though not of the result


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 1), (1.0, 1), (2.5, 3), (3.0, 3)])
def test_short_work_is_repeated_until_the_time_is_up_but_at_least_once(seconds, times):
    calls: list[None] = []

    lap = repeat(lambda: calls.append(None), 10, seconds)(fake_watch(wall=1.0, cpu=0.5))

    assert len(calls) == times
    assert lap == Lap(10 * times, wall=float(times), cpu=0.5 * times)


def test_the_ratio_is_the_median_of_the_rounds_own_ratios():
    # The second round was slowed tenfold for both: its ratio is as good as any other.
    laps = {
        "fast": [Lap(10, 1.0, 0.5), Lap(10, 10.0, 0.5), Lap(10, 2.0, 0.5)],
        "slow": [Lap(1, 1.0, 1.0), Lap(1, 8.0, 1.0), Lap(1, 1.0, 1.0)],
    }

    [result] = judge(contest(target=7.0), laps)

    assert result.ratio == pytest.approx(8.0)
    assert [result.lowest, result.highest] == pytest.approx([5.0, 10.0])
    assert result.cpu_ratio == pytest.approx(20.0)
    assert [result.rate, result.baseline_rate] == pytest.approx([5.0, 1.0])
    assert result.rounds == 3


@pytest.mark.parametrize(
    ("target", "met"), [(2.0, "yes"), (2.5, "by CPU time"), (4.0, "by CPU time"), (4.5, "NO"), (None, "")]
)
def test_a_target_is_met_by_the_clock_or_at_least_by_the_work_done(target, met):
    [result] = judge(contest(target), {"fast": [Lap(4, 2.0, 1.0)], "slow": [Lap(1, 1.0, 1.0)]})

    assert result.met == met


def test_without_a_baseline_there_is_a_rate_and_nothing_to_meet():
    [result] = judge(contest(None, baseline=None), {"fast": [Lap(4, 2.0, 1.0)]})

    assert (result.rate, result.ratio, result.met) == (2.0, None, "")


def test_the_machine_is_described():
    about = machine()

    assert about["cpu"]
    assert {"cores", "load_before", "python", "torch", "torch_threads"} <= about.keys()
