"""What a report calls missed is what it missed."""

import pytest

from tests.benchmarks.targets import Target, targets


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Target("efficiency", 0.9, least=0.9), True),
        (Target("efficiency", 0.899, least=0.9), False),
        (Target("p99", 2.0, most=2), True),
        (Target("p99", 2.01, most=2), False),
        (Target("failed", 0, most=0), True),
    ],
)
def test_a_limit_itself_is_met(target, met):
    assert target.met == met


def test_each_target_says_what_was_measured_and_what_was_wanted():
    assert str(Target("seconds until ready", 27.4, most=5)) == "seconds until ready: 27.4 (at most 5)"


def test_what_was_not_measured_is_no_target():
    assert targets({}) == []
    assert targets({"serving": {}, "growth": {}, "learning": {"results": []}}) == []


def test_a_slow_start_with_many_classes_is_missed_and_so_is_a_third_version_in_memory():
    phase = {"before": {"p99_ms": 10.0, "rss_mib": 200}, "swapping": {"p99_ms": 30.0, "rss_peak_mib": 300}}
    run = {"swaps": [phase], "failed": 0, "start": 7.0}
    missed = [str(one) for one in targets({"growth": {"swap": {"found": {"100000": run}}}}) if not one.met]

    assert missed == [
        "p99 across a swap over steady, 100,000 classes: 3 (at most 2)",
        "memory at the peak of a swap over that of two versions, 100,000 classes: 1.5 (at most 1.25)",
        "seconds until ready, 100,000 classes: 7 (at most 5)",
    ]
