from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from service.domain import Report
from service.errors import DatabaseUnreachable
from service.usecases.progress import Reporter
from zstci import Progress
from zstci.errors import Stopped
from zstci.hearing import await_result, waiting


class Told:
    """Stands for the rows: what was told, and whether somebody wants to cancel."""

    def __init__(self):
        self.reports, self.cancelled, self.away, self.attempt = [], False, False, 1

    def report(self, update_id, attempt, report):
        if self.away:
            raise DatabaseUnreachable("away")
        self.reports.append(report)

    def get(self, update_id):
        if self.away:
            raise DatabaseUnreachable("away")
        return SimpleNamespace(cancel_requested=self.cancelled, attempt=self.attempt)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def reporter(told):
    return Reporter(told, "an-update", 1, lambda: False)


def test_the_bar_only_goes_forward_and_ends_at_one(reporter, told):
    for stage in ("validating", "embedding", "fine_tuning", "embedding", "translating", "reprojecting", "evaluating"):
        reporter.stage(stage, 0.0)
        reporter.stage(stage, 1.0)
    reporter.stage("publishing", 1.0)

    places = [report.progress for report in told.reports]
    assert places == sorted(places)
    assert places[-1] == 1.0


def test_a_stage_that_a_frozen_update_lacks_moves_nothing(reporter, told):
    reporter.expect(training=False)
    reporter.stage("embedding", 1.0)
    reporter.stage("translating", 1.0)

    assert [report.progress for report in told.reports] == [0.8, 0.8]


def test_epochs_and_losses_are_told(reporter, told):
    reporter(Progress("fine_tuning", 0.5, 5, 10, 0.25))

    assert told.reports == [Report("fine_tuning", 0.485, told.reports[0].eta_seconds, 5, 10, 0.25)]


def test_reports_of_one_stage_are_spread_out_but_its_end_is_always_told(reporter, told):
    for step in range(1, 1001):
        reporter(Progress("embedding", step / 1000))

    assert len(told.reports) < 20
    assert told.reports[-1].progress == 0.25


def test_a_part_of_an_update_has_a_part_of_the_bar(told):
    reporter = Reporter(told, "an-update", 1, lambda: False, span=(0.1, 0.2))
    reporter.stage("publishing", 1.0)

    assert told.reports[-1].progress == 0.2


def test_a_database_that_is_away_costs_reports_only(reporter, told):
    told.away = True
    reporter.stage("embedding", 0.5)

    assert not reporter.should_stop()


def test_a_cancel_is_heard(reporter, told):
    told.cancelled = True

    assert reporter.should_stop()


def test_a_shutdown_is_heard_without_asking_the_database(told):
    told.away = True

    assert Reporter(told, "an-update", 1, lambda: True).should_stop()


def test_another_attempt_is_heard(reporter, told):
    told.attempt = 2

    assert reporter.should_stop()


def test_the_last_chance_to_stop_is_asked_for_at_once(reporter, told):
    assert not reporter.should_stop()
    told.cancelled = True

    with pytest.raises(Stopped):
        reporter.stop_if_asked()


def test_work_that_hangs_aside_gives_no_sign_of_life(told):
    signs = []
    reporter = Reporter(told, "an-update", 1, lambda: False, on_sign=lambda: signs.append("alive"))
    hanging: Future[None] = Future()
    looks = []

    def look():
        looks.append(waiting())
        reporter.look()
        if len(looks) == 3:
            hanging.set_result(None)

    await_result(hanging, look)

    assert looks == [True] * 3
    assert signs == []
    reporter.look()
    assert signs == ["alive"]
