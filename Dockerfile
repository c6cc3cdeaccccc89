# bert_mgpu in a container, for CPUs and for NVIDIA GPUs:
#
#   docker build -t bert_mgpu .
#   docker build -t bert_mgpu:gpu --build-arg EXTRAS=parquet,zh,gpu .
#   docker build -t bert_mgpu:horovod --build-arg HOROVOD=true .
#
#   docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/data" bert_mgpu \
#     run_classifier_mgpu --task_name=mrpc --data_dir=MRPC --output_dir=out ...
#   docker run --rm --gpus all --shm-size=1g -u "$(id -u):$(id -g)" -v "$PWD:/data" \
#     bert_mgpu:gpu run_classifier_mgpu --n_gpus=2 ...
#
# Not tried: no `docker build` and no `docker run` of this file, on CPUs or on GPUs;
# apt-get, useradd and --gpus; the extra gpu, beyond that pip finds all of it.
# Tried by hand, on Debian 12: the pip line as it stands, of the files that
# .dockerignore leaves, in a fresh venv of Python 3.12, and a training and the doctor
# with HOME=/tmp in it; the line of install_horovod in one of Python 3.11.
#
# One image for both: CUDA and cuDNN come as wheels of the extra gpu, the driver comes
# from the host by the NVIDIA Container Toolkit, which `--gpus all` needs.
FROM python:3.12-slim

ARG EXTRAS=parquet,zh
ARG HOROVOD=false

# ssh is what horovodrun reaches other machines by; the compiler builds Horovod, without
# NCCL, as there is no nvcc here.
RUN if [ "$HOROVOD" = true ]; then \
      apt-get update \
      && apt-get install -y --no-install-recommends g++ make openssh-client \
      && rm -rf /var/lib/apt/lists/*; \
    fi

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[$EXTRAS]"

# From a folder without the source: what was installed is what is built for.
WORKDIR /data
RUN if [ "$HOROVOD" = true ]; then bert_mgpu install_horovod; fi

# Libraries that keep something at home find a place, whatever -u says.
RUN useradd --create-home --uid 1000 bert && rm -rf /src && chown bert /data
USER bert
ENV HOME=/tmp PYTHONUNBUFFERED=1

CMD ["bert_mgpu", "doctor"]
