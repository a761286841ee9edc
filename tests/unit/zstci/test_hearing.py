"""A stop is heard in the middle of a pass: counted in layers, not in seconds."""

import threading
from concurrent.futures import Future
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from tests.unit.zstci import tiny
from zstci import learn
from zstci.distributed import Team
from zstci.errors import Stopped
from zstci.hearing import aside, await_result, look_within, seldom
from zstci.nets import build_net
from zstci.progress import Watch
from zstci.trainer import _ahead

PIXELS = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)


class Asked:
    """Stops at the `stop_at`-th look; who asks again after that has not heard."""

    def __init__(self, stop_at=None):
        self.count, self.stop_at = 0, stop_at

    def __call__(self):
        self.count += 1
        if self.count == self.stop_at:
            raise Stopped("stopped on request")


def every_pass(monkeypatch, look):
    """Also those that are shorter than the time between two looks."""

    def within(watch, *nets):
        return look_within(look, *nets)

    monkeypatch.setattr(Watch, "within", within)


def layers(net):
    return [layer for layer in net.modules() if not list(layer.children())]


@pytest.fixture
def net():
    return build_net(tiny.IMAGE_NET, seed=1).requires_grad_(True)


@pytest.fixture
def ran(net):
    """The layers that have run, in order, forward and backward."""
    seen = []

    def note(layer, inputs, output):
        seen.append("forward")
        if output.requires_grad:
            output.register_hook(lambda _: seen.append("backward"))

    for layer in layers(net):
        layer.register_forward_hook(note)
    return seen


def test_every_layer_asks_on_the_way_there_and_on_the_way_back(net, ran):
    asked = Asked()
    with look_within(asked, net):
        net(PIXELS).sum().backward()

    assert ran.count("forward") > 70
    assert ran.count("backward") > 70
    assert asked.count == len(ran)


def test_a_stop_on_the_way_there_ends_the_pass_at_that_layer(net, ran):
    with look_within(Asked(stop_at=10), net), pytest.raises(Stopped):
        net(PIXELS)

    assert ran == ["forward"] * 10


def test_a_stop_on_the_way_back_ends_the_pass_at_that_layer(net, ran):
    asked = Asked()
    with look_within(asked, net):
        loss = net(PIXELS).sum()
        there = len(ran)
        asked.stop_at = there + 10
        with pytest.raises(Stopped, match="on request"):
            loss.backward()

    assert len(ran) - there <= 10


def test_nothing_is_left_on_the_net_and_other_threads_are_not_stopped(net):
    with look_within(Asked(stop_at=1), net):
        assert aside(lambda: net(PIXELS), lambda: None).shape == (4, 8)
        with pytest.raises(Stopped):
            net(PIXELS)

    assert not any(layer._forward_hooks for layer in net.modules())
    net(PIXELS)


@pytest.mark.parametrize("regularizer", ["lwf", "ewc", "mas"])
def test_an_update_whose_every_layer_asks_ends_bit_for_bit_like_one_without_hooks(monkeypatch, regularizer):
    config = tiny.image_config(regularizer=regularizer, translator="zstci")
    parent = learn(None, tiny.images("01"), tiny.image_config())
    asked = Asked()

    def update():
        return learn(parent, tiny.images("23", 6), config)

    every_pass(monkeypatch, asked)
    heard = update()
    monkeypatch.setattr(Watch, "within", lambda *_: nullcontext())

    assert asked.count > 500
    tiny.assert_same_snapshot(heard, update())


def test_a_stop_is_heard_in_every_pass_of_an_update(monkeypatch):
    """Embedding, fine-tuning, the parent's pass of LwF, importance: wherever a layer is the last to run, it asked."""
    parent = learn(None, tiny.images("01"), tiny.image_config())
    config = tiny.image_config(regularizer="lwf")
    counting = Asked()
    every_pass(monkeypatch, counting)
    learn(parent, tiny.images("23", 6), config)
    whole = counting.count

    for stop_at in range(1, whole, whole // 12):
        stopping = Asked(stop_at)
        every_pass(monkeypatch, stopping)
        with pytest.raises(Stopped):
            learn(parent, tiny.images("23", 6), config)
        assert stopping.count == stop_at


def test_what_is_computed_aside_is_computed_as_here():
    values = torch.randn(300, 40, generator=torch.Generator().manual_seed(0)).requires_grad_(True)

    with torch.no_grad():
        found = aside(lambda: torch.linalg.eigh(values.T @ values)[1], lambda: None)
        assert torch.equal(found, torch.linalg.eigh(values.T @ values)[1])
    assert not found.requires_grad
    assert aside(lambda: values.sum(), lambda: None).requires_grad


def test_who_stops_does_not_wait_for_what_is_computed_aside():
    released = threading.Event()
    try:
        with pytest.raises(Stopped):
            aside(released.wait, Asked(stop_at=2))
    finally:
        released.set()


def test_what_was_stopped_ends_before_the_next_is_computed_aside():
    """Or two of them would need memory at once."""
    released, begun = threading.Event(), threading.Event()
    with pytest.raises(Stopped):
        aside(released.wait, Asked(stop_at=2))

    with pytest.raises(Stopped):
        aside(begun.set, Asked(stop_at=3))
    assert not begun.is_set()
    released.set()
    assert begun.wait(60)


def test_an_error_of_what_is_computed_aside_is_raised_here():
    def fail():
        raise TimeoutError("the work's own")

    with pytest.raises(TimeoutError, match="own"):
        aside(fail, lambda: None)


def test_who_stops_does_not_wait_for_a_batch_that_is_still_decoded():
    released = threading.Event()

    def decode(chosen):
        released.wait()
        return chosen

    batches = _ahead([PIXELS, PIXELS], decode, Asked(stop_at=1))
    try:
        with pytest.raises(Stopped):
            next(batches)
        del batches
    finally:
        released.set()


def test_a_result_that_is_there_is_not_waited_for():
    there: Future[int] = Future()
    there.set_result(7)

    assert await_result(there, Asked(stop_at=1)) == 7


def test_seldom_looks_again_when_the_time_has_passed(monkeypatch):
    now = 100.0
    monkeypatch.setattr("zstci.hearing.time.monotonic", lambda: now)
    asked = Asked()
    look = seldom(asked, 1.0)

    counts = []
    for now in (100.5, 101.0, 101.9, 102.0):  # noqa: B007 - the clock reads it
        look()
        counts.append(asked.count)

    assert counts == [0, 1, 1, 2]


def test_a_layer_that_hands_back_several_tensors_asks_as_well():
    asked = Asked()
    recurrent = nn.LSTM(3, 2)
    with look_within(asked, recurrent):
        recurrent(torch.zeros(1, 1, 3))

    assert asked.count == 1


def test_a_team_is_not_asked_in_the_middle_of_a_pass_where_one_would_leave_the_others_waiting():
    Watch(should_stop=lambda: True, team=Team(0, 2), look_seconds=0).look()
    with pytest.raises(Stopped):
        Watch(should_stop=lambda: True, look_seconds=0).look()
