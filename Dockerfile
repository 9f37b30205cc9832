# JupyterLab with the notebooks and a kernel for their runs, as an ordinary user (docs/where.md):
#
#     docker build -t tcp-lab-notebook .
#     docker run --rm -p 127.0.0.1:8888:8888 tcp-lab-notebook
#
# `make test-sandbox` follows these lines without Docker, so each instruction is one line.
FROM debian:bookworm-slim
ARG KERNELS=6.1
RUN useradd --create-home --uid 1000 --shell /bin/bash learner
WORKDIR /lab
COPY . .
RUN setup/system.sh && chown -R learner: .
USER learner
RUN setup/python.sh
RUN for kernel in $KERNELS; do .venv/bin/labs kernel build "$kernel" || exit; done
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "notebooks/00-start-here.ipynb"]
