"""Chaining: what one task hands to the next, checked against the rules written out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from zstci.config import Config, TranslatorConfig
from zstci.memory import Features, Memory, advance
from zstci.progress import Progress, Watch
from zstci.translators import TRANSLATORS, Pairs, Translation, fit_translator, linear_fit

DIM = 4
TINY = Config(
    translation=TranslatorConfig(hidden=6, epochs=2, batch_size=8, lr=0.05, unify="unified"),
    translator="linear",
    classifier="ncm",
    device="cpu",
)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def features(seed: int, names: str, per_class: int = 3, moved: bool = True) -> Features:
    """Unit vectors, as a net gives them; with `moved` the new net has drifted by a linear map and some noise."""
    count = len(names) * per_class
    old = torch.nn.functional.normalize(normal(seed, count, DIM))
    drifted = old + 0.5 * old @ normal(seed + 1, DIM, DIM) + 0.1 * normal(seed + 2, count, DIM)
    new = torch.nn.functional.normalize(drifted) if moved else old
    return Features(old, new, tuple(names), torch.arange(len(names)).repeat_interleave(per_class))


def learnt(memory: Memory, task: Features, translator: str = "linear", moved: bool = True, seed: int = 0) -> Memory:
    return advance(memory, task, moved, replace(TINY, translator=translator), seed, Watch())


def copy_of(memory: Memory) -> list[Tensor]:
    held = [memory.prototypes.means, memory.prototypes.counts, memory.prototypes.hops, memory.scatter.matrix]
    held += [] if memory.query is None else list(memory.query.state_dict().values())
    return [value.clone() for value in held]


def by_hand(memory: Memory, vectors: Tensor) -> Tensor:
    """common(z) = z + g(z), or z where there is no g."""
    with torch.no_grad():
        return vectors if memory.query is None else vectors + memory.query.g(vectors)


def after_zstci() -> Memory:
    memory = learnt(learnt(Memory.empty(DIM), features(0, "ab")), features(10, "cd"), "zstci")
    assert memory.query is not None
    return memory


steps = st.lists(
    st.tuples(
        st.sampled_from(["none", "sdc", "linear", "zstci", "zstci"]),
        st.sampled_from([True, True, True, False]),  # did the net move?
        st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True).map("".join),
    ),
    min_size=3,  # the third task is the first whose old side can be a common space of its own
    max_size=5,
)


@settings(deadline=None, max_examples=40)
@given(steps=steps, seed=st.integers(0, 10**6))
def test_every_task_starts_where_the_one_before_ended(steps: list[tuple[str, bool, str]], seed: int) -> None:
    memory = Memory.empty(DIM)
    for number, (translator, moved, names) in enumerate(steps):
        task = features(seed + 10 * number, names, moved=moved)
        before, kept = memory, copy_of(memory)

        memory = learnt(before, task, translator, moved, seed=number)

        means, hops = before.prototypes.means, before.prototypes.hops
        if moved and len(before.prototypes):
            strangers = [i for i, name in enumerate(before.prototypes.ids) if name not in names]
            pairs = Pairs(by_hand(before, task.old), task.new, task.targets, means[strangers])
            fitted = fit_translator(translator, pairs, TINY.translation, number, Watch())
            means, hops = fitted.old(means), hops + int(fitted.name != "none")
            query = before.query if fitted.name == "none" else fitted.query
        else:
            query = None if moved else before.query
        expected = {name: (means[i], int(hops[i])) for i, name in enumerate(before.prototypes.ids)}
        counts = dict(zip(before.prototypes.ids, before.prototypes.counts.tolist(), strict=True))
        for position, name in enumerate(names):
            mean = by_hand(replace(before, query=query), task.new[task.targets == position].mean(0, keepdim=True))[0]
            was, hop = expected.get(name, (mean, 0))
            had = counts.get(name, 0)
            expected[name], counts[name] = ((had * was + 3 * mean) / (had + 3), hop), had + 3

        assert memory.prototypes.ids == tuple(expected)
        assert memory.prototypes.hops.tolist() == [hop for _, hop in expected.values()]
        assert memory.prototypes.counts.tolist() == list(counts.values())
        wanted = torch.stack([mean for mean, _ in expected.values()])
        torch.testing.assert_close(memory.prototypes.means, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(memory.common(task.new), by_hand(replace(before, query=query), task.new))
        assert all(torch.equal(a, b) for a, b in zip(copy_of(before), kept, strict=True))  # the parent is untouched


def test_the_old_side_of_a_task_is_the_common_space_and_not_the_raw_net(monkeypatch: pytest.MonkeyPatch) -> None:
    before, task, given_pairs = after_zstci(), features(20, "ef"), []

    def recording(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
        given_pairs.append(pairs)
        return TRANSLATORS["zstci"](pairs, config, seed, watch)

    monkeypatch.setitem(TRANSLATORS, "recording", recording)
    learnt(before, task, "recording")

    (pairs,) = given_pairs
    assert torch.equal(pairs.old, before.common(task.old))
    assert not torch.allclose(pairs.old, task.old, atol=1e-2)
    assert torch.equal(pairs.new, task.new)
    assert torch.equal(pairs.prototypes, before.prototypes.means)


def test_classes_that_come_back_are_no_strangers_to_keep_away_from(monkeypatch: pytest.MonkeyPatch) -> None:
    before, given_pairs = after_zstci(), []

    def recording(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
        given_pairs.append(pairs)
        return TRANSLATORS["none"](pairs, config, seed, watch)

    monkeypatch.setitem(TRANSLATORS, "recording", recording)
    learnt(before, features(20, "bde"), "recording")

    # `unified` pushes new images away from these prototypes: not from those of their own class.
    a, _, c, _ = before.prototypes.means
    assert torch.equal(given_pairs[0].prototypes, torch.stack([a, c]))


def test_a_new_prototype_is_the_translated_mean_and_not_the_mean_of_translated_images() -> None:
    task = features(20, "ef")

    memory = learnt(after_zstci(), task, "zstci")

    raw = torch.stack([task.new[task.targets == position].mean(0) for position in range(2)])
    of_samples = torch.stack([memory.common(task.new)[task.targets == position].mean(0) for position in range(2)])
    torch.testing.assert_close(memory.prototypes.means[4:], by_hand(memory, raw))
    assert not torch.allclose(memory.prototypes.means[4:], of_samples, atol=1e-4)


def test_prototypes_are_not_brought_back_to_length_one() -> None:
    memory = learnt(after_zstci(), features(20, "ef"), "zstci")

    assert ((memory.prototypes.means.norm(dim=1) - 1).abs() > 1e-3).all()


def test_the_query_map_is_dropped_after_a_linear_task() -> None:
    before, task = after_zstci(), features(20, "ef")

    memory = learnt(before, task, "linear")

    assert memory.query is None
    assert torch.equal(memory.common(task.new), task.new)
    matrix = linear_fit(by_hand(before, task.old), task.new, TINY.translation.ridge)
    torch.testing.assert_close(memory.prototypes.means[:4], before.prototypes.means @ matrix)


def test_a_frozen_task_keeps_the_query_map_and_old_prototypes_bit_for_bit() -> None:
    before, task = after_zstci(), features(20, "ef", moved=False)

    memory = learnt(before, task, "zstci", moved=False)

    assert memory.query is before.query
    assert torch.equal(memory.prototypes.means[:4], before.prototypes.means)
    assert memory.prototypes.hops.tolist() == [1, 1, 0, 0, 0, 0]
    raw = torch.stack([task.new[task.targets == position].mean(0) for position in range(2)])
    torch.testing.assert_close(memory.prototypes.means[4:], by_hand(before, raw))


def test_the_first_task_needs_no_translator() -> None:
    task = features(0, "ab")

    memory = learnt(Memory.empty(DIM), task, "zstci")

    assert memory.query is None
    assert memory.translation == {}
    assert memory.prototypes.hops.tolist() == [0, 0]


def test_a_memory_that_lost_all_its_classes_starts_anew_in_the_nets_own_space() -> None:
    before = after_zstci()
    emptied = replace(before, prototypes=before.prototypes.without("abcd"))

    memory = learnt(emptied, features(20, "ef"), "zstci")

    assert memory.query is None
    assert memory.translation == {}
    assert memory.prototypes.hops.tolist() == [0, 0]


def test_a_linear_task_carries_the_spread_of_old_classes_through_its_own_map() -> None:
    first, second = features(0, "ab"), features(10, "cd")
    before = learnt(Memory.empty(DIM), first)

    after = learnt(before, second, "linear")

    matrix = linear_fit(second.old, second.new, TINY.translation.ridge)
    moved = replace(first, new=first.new @ matrix)
    at_once = learnt(learnt(Memory.empty(DIM), moved), second, moved=False)
    torch.testing.assert_close(after.scatter.matrix, at_once.scatter.matrix, rtol=1e-4, atol=1e-5)
    assert after.scatter.freedom == at_once.scatter.freedom


def test_the_spread_of_new_classes_is_that_of_their_images_in_the_common_space() -> None:
    before, task = after_zstci(), features(20, "ef", moved=False)

    after = learnt(before, task, moved=False)

    expected = before.scatter.matrix.clone()
    for position in range(2):
        own = by_hand(before, task.new[task.targets == position])
        expected += sum(torch.outer(row, row) for row in own - own.mean(0))
    torch.testing.assert_close(after.scatter.matrix, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("translator", "carried"), [("linear", True), ("zstci", False), ("sdc", False)])
def test_the_spread_travels_by_itself_only_where_the_translator_is_linear(translator: str, carried: bool) -> None:
    before, task = learnt(Memory.empty(DIM), features(0, "ab")), features(10, "cd")
    config = replace(TINY, translator=translator)

    def scatter(wanted: bool | None) -> Tensor:
        chosen = replace(config, translation=replace(config.translation, transport_covariance=wanted))
        return advance(before, task, True, chosen, 0, Watch()).scatter.matrix

    assert torch.equal(scatter(None), scatter(carried))
    assert not torch.equal(scatter(True), scatter(False))


def test_without_transport_or_drift_the_spread_stays_as_it_is() -> None:
    before, task = learnt(Memory.empty(DIM), features(0, "ab")), features(10, "c")
    still = replace(task, new=task.old)
    fixed = replace(TINY, translation=replace(TINY.translation, transport_covariance=False))

    kept = advance(before, task, True, fixed, 0, Watch())
    same = learnt(before, still, "none")

    own = learnt(Memory.empty(DIM), task).scatter.matrix
    torch.testing.assert_close(kept.scatter.matrix, before.scatter.matrix + own)
    own = learnt(Memory.empty(DIM), still).scatter.matrix
    torch.testing.assert_close(same.scatter.matrix, before.scatter.matrix + own)


def test_a_frozen_class_learnt_in_two_tasks_is_as_if_learnt_at_once() -> None:
    task = features(0, "ab", per_class=6, moved=False)
    parts = [replace(task, old=task.old[i::2], new=task.new[i::2], targets=task.targets[i::2]) for i in range(2)]

    apart = learnt(learnt(Memory.empty(DIM), parts[0], moved=False), parts[1], moved=False)
    at_once = learnt(Memory.empty(DIM), task, moved=False)

    torch.testing.assert_close(apart.prototypes.means, at_once.prototypes.means)
    torch.testing.assert_close(apart.scatter.matrix, at_once.scatter.matrix)
    assert apart.scatter.freedom == at_once.scatter.freedom


def test_the_metric_belongs_to_the_chosen_classifier() -> None:
    before = learnt(Memory.empty(DIM), features(0, "ab"))
    assert before.metric is None

    whitened = advance(before, features(10, "c"), True, replace(TINY, classifier="whitened"), 0, Watch())
    assert whitened.metric is not None
    assert learnt(whitened, features(20, "d")).metric is None


def test_the_record_says_what_was_done_and_progress_reaches_its_end() -> None:
    reports: list[Progress] = []
    before = learnt(Memory.empty(DIM), features(0, "ab"))

    after = advance(before, features(10, "cd"), True, replace(TINY, translator="auto"), 0, Watch(reports.append))

    assert after.translation["chosen"] == after.translation["name"]
    assert {"residual", "left_out_error", "left_out_error_none"} <= set(after.translation)
    assert reports[-1] == Progress("reprojecting", 1.0)


def test_none_after_zstci_keeps_queries_in_the_space_where_the_prototypes_stayed() -> None:
    memory = learnt(Memory.empty(DIM), features(0, "ab", moved=True), "none", True)
    translated = learnt(memory, features(1, "cd", moved=True), "zstci", True)

    untouched = learnt(translated, features(2, "ef", moved=True), "none", True)

    assert untouched.query is translated.query
    assert torch.equal(untouched.prototypes.means[:4], translated.prototypes.means)
