"""A cancel is heard within two seconds of work, whatever is being done, by a net of the default size."""

import time

import pytest

from service.usecases.make_version import Maker
from service.usecases.progress import Reporter

pytestmark = pytest.mark.slow

DEFAULT_SIZE = {
    "net.backbone": "efficientnet_lite0",
    "net.input.size": 224,
    "net.input.resize": 256,
    "net.input.augment": "resized_crop",
}
STAGES = ("embedding", "fine_tuning", "translating", "evaluating", "publishing")


class Listening(Reporter):
    """The real one, which notes how much the processor worked between two looks at whether to stop: a clock would
    measure how busy the machine is."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.longest = {}
        self._worked = time.process_time()

    def should_stop(self):
        before, self._worked = self._worked, time.process_time()
        self.longest[self._stage] = max(self.longest.get(self._stage, 0.0), self._worked - before)
        return super().should_stop()


def test_no_stage_works_for_two_seconds_without_a_look_at_whether_to_stop(bench):
    bench.learn([0, 1], overrides=DEFAULT_SIZE)
    overrides = {"train.trainable": "head", "train.epochs": 3, "translation.epochs": 3}  # as is usual on a CPU
    update = bench.parts.updates.begin(
        bench.submit([2, 3], regularizer="lwf", translator="zstci", overrides=overrides).id
    )
    reporter = Listening(bench.parts.updates, update.id, update.attempt, lambda: False)
    Maker(bench.parts.updates, bench.parts.versions, bench.parts.artifacts, bench.settings).make(update, reporter)
    reporter.stop_if_asked()

    for stage, seconds in reporter.longest.items():
        print(f"{stage:12} {seconds:.2f} s of work between two looks")  # with pytest -s
    assert set(STAGES) <= set(reporter.longest)
    assert max(reporter.longest.values()) < 2.0
