"""The story: three updates that move the net, once with translation and once without, on the same first version."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from service.cli.demo.data import Story, Task
from service.client import Client, Progress, UpdateEntry
from service.errors import ServiceUnreachable

__all__ = ["SETTINGS", "Measured", "Telling", "count_steps", "run"]

# The paper's plain fine-tuning, of the net's last layer, with the default number of epochs: no trick that keeps the net
# in its place, so that what translation does is all there is. Small images, so that slow machines are not slow.
SETTINGS: dict[str, Any] = {"regularizer": "finetune", "classifier": "ncm"}
_NET = {"net.input.size": 96, "net.input.resize": 96}
_SWAP_SECONDS = 60.0

Telling = Callable[[str, Progress | None], None]  # what is being done, and how far it is


@dataclass(frozen=True)
class Measured:
    """After an update, in percent of the test images. `old`: of the classes of all updates before; None after the
    first."""

    update: int
    translator: str
    version: int
    classes: tuple[str, ...]
    old: float | None
    new: float
    all: float
    seconds: float


def count_steps(story: Story, translators: Sequence[str]) -> int:
    """Updates and measurements."""
    return 2 * (1 + len(translators) * (len(story.tasks) - 1))


def run(client: Client, story: Story, translators: Sequence[str], tell: Telling) -> list[Measured]:
    """The last translator's line is the one that is active at the end."""
    first = _learn(client, story, 0, translators[-1], tell)
    found = [first]
    for translator in translators:
        client.activate(first.version)
        _follow(client, first.version)
        found += [_learn(client, story, number, translator, tell) for number in range(1, len(story.tasks))]
    return found


def _learn(client: Client, story: Story, number: int, translator: str, tell: Telling) -> Measured:
    task = story.tasks[number]
    what = f"update {number + 1}, " + (f"translator {translator}" if number else "the first classes")
    tell(what, None)
    update = client.add(task.folder, translator=translator, overrides={} if number else _NET, **SETTINGS)
    entry = update.wait(on_progress=lambda progress: tell(what, progress))
    version = _version(entry)
    _follow(client, version)
    tell(f"{what}: test images", None)
    before = [_correct(client, earlier, version) for earlier in story.tasks[:number]]
    new = _correct(client, task, version)
    old = [hit for hits in before for hit in hits]
    taken = client.version(version).seconds
    return Measured(
        number + 1,
        translator,
        version,
        task.classes,
        _percent(old) if old else None,
        _percent(new),
        _percent(old + new),
        taken,
    )


def _version(entry: UpdateEntry) -> int:
    assert entry.version is not None  # an update that succeeded made one
    return entry.version


def _follow(client: Client, version: int) -> None:
    deadline = time.monotonic() + _SWAP_SECONDS
    while (ready := client.ready()) is None or ready.version != version:
        if time.monotonic() > deadline:
            raise ServiceUnreachable(f"version {version} was published, but does not answer; the log says why")
        time.sleep(0.05)


def _correct(client: Client, task: Task, version: int) -> list[bool]:
    answers = client.classify([path for _, path in task.tests], 1, version)
    return [answer.predictions[0].name == name for answer, (name, _) in zip(answers, task.tests, strict=True)]


def _percent(hits: list[bool]) -> float:
    return 100.0 * sum(hits) / len(hits)
