# One file for CPU and GPU:
#   docker build -t zstci .                                  # torch as the package index has it: on Linux with CUDA
#   docker build -t zstci --build-arg TORCH_INDEX=... .      # slim: the address of PyTorch's CPU wheels
# Any base with Python 3.11 and its venv module does.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG TORCH_INDEX=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN ["python3", "-m", "venv", "/opt/zstci"]
WORKDIR /src
# What changes seldom comes first, so that a change of our code does not install torch again.
COPY constraints.txt pyproject.toml ./
RUN /opt/zstci/bin/python -c "import tomllib; it = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*it['dependencies'], *it['optional-dependencies']['s3'], sep='\n')" > needed.txt \
 && /opt/zstci/bin/pip install -qq ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt -r needed.txt
COPY README.md LICENSE ./
COPY zstci zstci
COPY service service
COPY migrations migrations
RUN ["/opt/zstci/bin/pip", "install", "-qq", "--no-deps", "."]

FROM ${BASE}
LABEL org.opencontainers.image.title="zstci" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/zstci /opt/zstci
# A number, not a name: no base image needs to know the user, and an orchestrator can check that it is not root.
# A fresh volume takes the owner of the folder that it is mounted on.
RUN ["/opt/zstci/bin/python", "-c", "import os; [(os.mkdir(path), os.chown(path, 10001, 10001)) for path in ('/data', '/artifacts')]"]
USER 10001:10001
ENV PATH=/opt/zstci/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HOME=/data ZSTCI_HOME=/data ZSTCI_HOST=0.0.0.0
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/opt/zstci/bin/python", "-c", "import os, urllib.request as web; web.urlopen(f\"http://127.0.0.1:{os.environ.get('ZSTCI_PORT', '8000')}/healthz\", timeout=4)"]
ENTRYPOINT ["/opt/zstci/bin/zstci"]
CMD ["serve"]
