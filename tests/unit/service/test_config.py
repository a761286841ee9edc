import re
from pathlib import Path

import pytest

from service.config import Settings, load_settings
from zstci.errors import InvalidConfig

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def test_no_setting_is_needed(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ZSTCI_{name.upper()}", raising=False)

    assert load_settings() == Settings(home=Path("zstci-data"), host="127.0.0.1", port=8000)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_and_its_default_are_in_the_readme(name):
    default = Settings.model_fields[name].default
    shown = "empty" if default == "" else f"`{default}`"

    assert f"| `ZSTCI_{name.upper()}` | {shown} |" in README


def test_every_variable_that_the_code_reads_is_in_the_readme():
    sources = [path for package in ("zstci", "service") for path in (ROOT / package).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"ZSTCI_[A-Z_]*[A-Z]", path.read_text())}

    assert "ZSTCI_DATA" in read
    assert {name for name in read if f"| `{name}` |" not in README} == set()


def test_settings_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ZSTCI_HOME", str(tmp_path))
    monkeypatch.setenv("ZSTCI_PORT", "9000")

    settings = load_settings()

    assert (settings.home, settings.port) == (tmp_path, 9000)


def test_a_value_that_cannot_work_is_named(monkeypatch):
    monkeypatch.setenv("ZSTCI_PORT", "many")

    with pytest.raises(InvalidConfig, match=r"ZSTCI_PORT='many': .*integer"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "65536"),
        ("MAX_PIXELS", "200000000"),
        ("MAX_UPLOADS", "0"),
        ("POLL_SECONDS", "0"),
        ("POLL_SECONDS", "nan"),
        ("TRAIN_THREADS", "-1"),
        ("RATE_LIMIT", "-1"),
        ("RATE_BURST", "0"),
        ("INSECURE", "perhaps"),
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "https://a.example/path"),
        ("CORS_ORIGINS", "https://a.example,b.example"),
    ],
)
def test_a_value_beyond_what_can_work_is_refused(monkeypatch, name, value):
    monkeypatch.setenv(f"ZSTCI_{name}", value)

    with pytest.raises(InvalidConfig, match=f"ZSTCI_{name}="):
        load_settings()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_is_for(name):
    assert Settings.model_fields[name].description


@pytest.mark.parametrize("key", ["short", "x" * 31, "a b" * 20, "\u00fc" * 40])
def test_a_key_that_is_too_easy_is_refused_and_not_shown(monkeypatch, key):
    monkeypatch.setenv("ZSTCI_ADMIN_KEY", key)

    with pytest.raises(InvalidConfig, match=r"ZSTCI_ADMIN_KEY='\.\.\.': .*at least 32") as refused:
        load_settings()
    assert key not in str(refused.value)
    assert refused.value.__cause__ is None


def test_secrets_are_not_shown_with_the_settings(monkeypatch):
    for name in ("KEY", "ADMIN_KEY"):
        monkeypatch.setenv(f"ZSTCI_{name}", "s" * 40)

    assert "s" * 40 not in repr(load_settings())
