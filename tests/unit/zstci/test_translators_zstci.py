"""zstci: its loss against lists and loops, and how it trains."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from zstci.config import Config, TranslatorConfig, Unify
from zstci.errors import InvalidConfig, Stopped
from zstci.progress import Checkpoints, Watch
from zstci.translators import Pairs, Residual, Translation, _translation_loss, fit_translator

DIM = 4
TINY = TranslatorConfig(hidden=8, epochs=15, batch_size=16, lr=1e-2)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(seed: int, count: int) -> Tensor:
    return torch.nn.functional.normalize(normal(seed, count, DIM))


def some_pairs(classes: int = 4, per_class: int = 5, prototypes: int = 3) -> Pairs:
    """Images that drifted by a linear map and a little noise."""
    count = classes * per_class
    old, drift = unit(0, count), 0.3 * normal(1, DIM, DIM)
    targets = torch.arange(classes).repeat_interleave(per_class)
    return Pairs(old, old + old @ drift + 0.01 * normal(2, count, DIM), targets, unit(3, prototypes))


def fitted(pairs: Pairs, config: TranslatorConfig = TINY, watch: Watch | None = None) -> Translation:
    return fit_translator("zstci", pairs, config, (1993, 2), watch or Watch())


def test_zstci_adds_the_translators_output_to_its_input() -> None:
    torch.manual_seed(0)
    residual_net, x = Residual(DIM, 8), unit(0, 3)

    weights = dict(residual_net.g.named_parameters())
    hidden = (x @ weights["0.weight"].T + weights["0.bias"]).clamp_min(0)
    out = hidden @ weights["2.weight"].T + weights["2.bias"]
    torch.testing.assert_close(residual_net(x), x + torch.where(out > 0, out, 0.2 * out))


def test_zstci_with_alignment_alone_brings_the_two_sides_together() -> None:
    pairs = some_pairs()

    translation = fitted(pairs, replace(TINY, unify="off", epochs=60))

    apart = float((pairs.old - pairs.new).norm(dim=1).mean())
    assert float(translation.details["residual"]) < apart / 2


@pytest.mark.parametrize("unify", ["off", "paper", "unified"])
@pytest.mark.parametrize(("classes", "prototypes"), [(4, 3), (1, 3), (3, 0)])
def test_zstci_trains_in_every_form_with_any_number_of_classes(unify: Unify, classes: int, prototypes: int) -> None:
    pairs = some_pairs(classes, prototypes=prototypes)

    translation = fitted(pairs, replace(TINY, unify=unify, epochs=2))

    assert isinstance(translation.query, Residual)
    assert torch.isfinite(translation.old(pairs.prototypes)).all()
    assert not translation.query.training
    assert not any(parameter.requires_grad for parameter in translation.query.parameters())


def test_zstci_with_nothing_to_learn_from_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidConfig, match="leaves zstci nothing to learn"):
        Config(translation=replace(TINY, align=False, unify="off"))


def test_zstci_is_the_same_for_the_same_seed_and_leaves_torchs_random_state_alone() -> None:
    pairs, config = some_pairs(), replace(TINY, unify="unified", epochs=3)
    state = torch.get_rng_state()

    first, again = (fit_translator("zstci", pairs, config, 7, Watch()) for _ in range(2))
    other = fit_translator("zstci", pairs, config, 8, Watch())

    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.old(pairs.prototypes), again.old(pairs.prototypes))
    assert not torch.equal(first.old(pairs.prototypes), other.old(pairs.prototypes))


def test_a_stopped_zstci_goes_on_to_the_same_translation_bit_for_bit(tmp_path: Path) -> None:
    pairs, config, asked = some_pairs(), replace(TINY, unify="unified", epochs=4), itertools.count(1)
    stopping = Watch(should_stop=lambda: next(asked) == 5, checkpoints=Checkpoints(tmp_path, "k", 0))
    with pytest.raises(Stopped):
        fitted(pairs, config, stopping)
    assert (tmp_path / "translating.safetensors").is_file()

    resumed = fitted(pairs, config, Watch(checkpoints=Checkpoints(tmp_path, "k", 0)))

    assert torch.equal(resumed.old(pairs.prototypes), fitted(pairs, config).old(pairs.prototypes))


# The loss of zstci, in lists and loops


Vectors = list[list[float]]


def distance(a: list[float], b: list[float]) -> float:
    return math.dist(a, b)


def naive_triplet(vectors: Vectors, labels: list[int], margin: float, negatives: Vectors) -> float:
    total = 0.0
    for i, anchor in enumerate(vectors):
        farthest = max(distance(anchor, v) for v, label in zip(vectors, labels, strict=True) if label == labels[i])
        away = [distance(anchor, v) for v, label in zip(vectors, labels, strict=True) if label != labels[i]]
        nearest = min(away + [distance(anchor, v) for v in negatives], default=math.inf)
        total += max(0.0, farthest - nearest + margin)
    return total / len(vectors)


def naive_loss(before: Vectors, after: Vectors, labels: list[int], prototypes: Vectors, c: TranslatorConfig) -> float:
    loss = 0.0
    if c.align:
        loss += sum(abs(x - y) for b, a in zip(before, after, strict=True) for x, y in zip(b, a, strict=True))
    if c.unify == "off":
        return loss
    negatives = prototypes if c.unify == "unified" else []
    loss += c.gamma * naive_triplet(after, labels, c.margin, negatives)
    loss += c.beta * naive_triplet(before, labels, c.margin, negatives)
    if prototypes:
        everything = after + before if c.unify == "unified" else []
        loss += c.delta * naive_triplet(prototypes, list(range(len(prototypes))), c.margin, everything)
    return loss


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("unify", ["off", "paper", "unified"])
@pytest.mark.parametrize("prototypes", [0, 5])
@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_each_setting_switches_its_own_terms_of_the_loss(
    align: bool, unify: Unify, prototypes: int, margin: float
) -> None:
    torch.manual_seed(0)
    old, new = Residual(DIM, 8).double(), Residual(DIM, 8).double()
    pairs = some_pairs(prototypes=prototypes)
    pairs = replace(pairs, **{side: getattr(pairs, side).double() for side in ("old", "new", "prototypes")})
    config = TranslatorConfig(align=align, unify=unify, gamma=3.0, beta=0.7, delta=11.0, margin=margin)
    batch = torch.tensor([0, 1, 2, 5, 6, 7, 11, 12])

    with torch.no_grad():
        loss = _translation_loss(old, new, pairs, batch, config, torch.Generator().manual_seed(0))
        before, after, translated = old(pairs.old[batch]), new(pairs.new[batch]), old(pairs.prototypes)

    labels = pairs.targets[batch].tolist()
    naive = naive_loss(before.tolist(), after.tolist(), labels, translated.tolist(), config)
    assert loss.item() == pytest.approx(naive, rel=1e-5)
    assert (naive == 0) == (not align and unify == "off")


def test_the_papers_third_triplet_is_always_zero() -> None:
    for seed in range(5):
        classes = torch.randint(6, (16,), generator=torch.Generator().manual_seed(seed)).tolist()
        # A batch of prototypes, as published: drawn with repetition, so that the only positives are copies.
        prototypes = [unit(seed, 6)[label].tolist() for label in classes]

        assert naive_triplet(prototypes, classes, 0.0, []) == 0.0


def test_unified_looks_at_no_more_prototypes_than_fit_a_batch() -> None:
    pairs, seen = some_pairs(prototypes=40), []

    class Counting(Residual):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    maps = Counting(DIM, 8), Counting(DIM, 8)
    config = replace(TINY, unify="unified", batch_size=8)
    _translation_loss(*maps, pairs, torch.arange(8), config, torch.Generator().manual_seed(0))

    assert seen == [8, 8, 8]
