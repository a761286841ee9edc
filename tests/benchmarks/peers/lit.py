"""LitServe. Its own reader takes JSON and forms only, so a raw body goes the documented way of a typed request: FastAPI
reads `bytes`, and LitServe hands them to a worker process as they are. A form needs an API of its own type.

`fast_queue` is not among the configurations: in 0.2.19 it changes nothing (its issue 751: the keyword is dropped, the
transport stays multiprocessing), so a row of it would be a second row of the same. No `annotations` from the future
here: LitServe reads the types as they stand.
"""

import os
from typing import Annotated, Any

import litserve  # type: ignore[import-not-found,unused-ignore]
from fastapi import Body, UploadFile
from fastapi.responses import JSONResponse

from tests.benchmarks.peers.model import from_environment


class _Classify(litserve.LitAPI):  # type: ignore[misc,unused-ignore]
    def setup(self, device: str) -> None:
        self.model = from_environment()

    def predict(self, pixels: Any) -> Any:
        """One image, or with batching a list of them."""
        return self.model.classify(pixels) if isinstance(pixels, list) else self.model.classify([pixels])[0]

    def batch(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def unbatch(self, output: list[Any]) -> list[Any]:
        return output

    def encode_response(self, output: Any) -> JSONResponse:
        return JSONResponse(output)


class Raw(_Classify):
    def decode_request(self, request: Annotated[bytes, Body(media_type="image/jpeg")]) -> Any:
        return self.model.decode(request)


class Form(_Classify):
    def decode_request(self, request: UploadFile) -> Any:
        return self.model.decode(request.file.read())


def main() -> None:
    batch = int(os.environ.get("PEER_BATCH", "1"))
    options = {"max_batch_size": batch, "batch_timeout": 0.005} if batch > 1 else {}
    server = litserve.LitServer(
        [Raw(api_path="/raw", **options), Form(api_path="/multipart", **options)],
        accelerator="cpu",
        workers_per_device=int(os.environ["PEER_WORKERS"]),
        timeout=60,
    )
    server.run(
        host="127.0.0.1",
        port=int(os.environ["PEER_PORT"]),
        num_api_servers=int(os.environ.get("PEER_SERVERS", "1")),
        log_level="warning",
        access_log=False,
        generate_client_file=False,
    )


if __name__ == "__main__":
    main()
