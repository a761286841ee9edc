"""zstci reproduce"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from service.cli.output import AsJson, parse_settings

__all__ = ["reproduce"]

_ROWS = "none,sdc,zstci,zs,ur,unified,linear,auto,oracle,joint"
_REGULARIZERS = {
    "cifar100": "finetune,lwf,ewc,mas",
    "cub": "frozen,finetune,lwf,ewc,mas",
    "digits": "finetune,lwf",
}


class Dataset(StrEnum):
    cifar100 = "cifar100"
    cub = "cub"
    digits = "digits"


class Start(StrEnum):
    warm = "warm"
    cold = "cold"


Names = Annotated[str, typer.Option(help="Comma-separated")]
Regularizers = Annotated[
    str, typer.Option(help="Comma-separated; lwf=0.1 sets the weight (default: the table's)", show_default=False)
]
From = Annotated[Start, typer.Option(help="From the published warm-up, or from nothing (cifar100)")]
Seed = Annotated[int, typer.Option(min=0, help="Of the order of classes and of all random numbers")]
Tasks = Annotated[int, typer.Option(min=0, help="0: 5 for digits, else 10")]
Limit = Annotated[int, typer.Option(min=0, help="Training images of a class; 0: all")]
Data = Annotated[Path | None, typer.Option(help="Where the images are (default: ZSTCI_DATA)", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what --out holds already.")]
OracleImages = Annotated[int, typer.Option(min=0, help="Images of a class for the true means; 0: all")]
Threads = Annotated[int, typer.Option(min=0, help="CPU threads of torch; 0: as torch likes")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any single setting, such as train.epochs=5; may be repeated."),
]
Out = Annotated[Path | None, typer.Option(help="For nets, rows and plots (default: runs/DATASET)", show_default=False)]


def reproduce(
    dataset: Annotated[Dataset, typer.Argument(help="Which of the paper's tables")],
    regularizer: Regularizers = "",
    translator: Names = _ROWS,
    classifier: Names = "ncm,whitened",
    start: From = Start.warm,
    seed: Seed = 1993,
    tasks: Tasks = 0,
    limit_per_class: Limit = 0,
    data: Data = None,
    resume: Resume = False,
    oracle_images: OracleImages = 100,
    threads: Threads = 0,
    settings: Assignments = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiment and print its table next to ours."""
    import torch

    from zstci.reproduce import make_plan, run, write_report

    if threads or dataset is Dataset.digits:
        torch.set_num_threads(threads or 1)  # digits are so small that a second thread only waits for the first
    plan = make_plan(
        dataset.value,
        regularizers=_names(regularizer or _REGULARIZERS[dataset.value]),
        rows=_names(translator),
        classifiers=_names(classifier),
        start=start.value,
        seed=seed,
        tasks=tasks,
        limit=limit_per_class,
        data=data,
        out=out if out is not None else Path("runs") / dataset.value,
        resume=resume,
        oracle_images=oracle_images,
        overrides=parse_settings(settings or []),
    )
    text = write_report(plan, run(plan))
    typer.echo((plan.out / "report.json").read_text() if as_json else text, nl=False)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("give at least one name")
    return names
