#!/bin/sh
# Packages of PyPI for the tests of the Python package, installed into DIR: torch, transformers, NumPy, a type checker, and what builds
# the package.
#
#   export AULE_TEST_PACKAGES="$(tests/tools/python-packages.sh DIR)"
#
# prints the folder to import from. A second call finds it filled and installs nothing. Fails, with the reason on stderr, where they
# cannot be had; tests that need them are skipped then.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
# The distribution's Python, which meson finds first, too.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
# torch and what it loads: of NVIDIA's libraries those that it is linked with, though there is no device.
torch="torch==2.15.0 filelock==4.2.11 fsspec==2026.9.0 Jinja2==3.1.6 MarkupSafe==3.0.4 mpmath==1.3.0 networkx==3.6.1 numpy==2.4.6
    sympy==1.14.0 typing_extensions==4.16.0 nvidia-cufile==1.20.0.107 nvidia-cusparselt-cu13==0.10.0 nvidia-nccl-cu13==2.32.3
    nvidia-nvshmem-cu13==3.8.0 setuptools==80.9.0"
transformers="transformers==5.23.0 annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.16.0 click==8.5.1 h11==0.16.0 hf-xet==1.8.0
    httpcore2==2.16.2 httpx2==2.16.2 huggingface_hub==2.4.0 idna==3.20 packaging==26.3 pydantic==2.14.3 pydantic_core==2.50.4
    PyYAML==6.0.3 regex==2026.11.15 rich==15.0.0 safetensors==0.8.0 shellingham==1.5.4 tokenizers==0.23.3 tqdm==4.70.1
    truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 Pygments==2.21.0 markdown-it-py==4.3.0 mdurl==0.1.2"
checks="mypy==2.4.1 mypy_extensions==1.2.0 pathspec==1.1.1 librt==0.16.0 ast_serialize==0.13.1 ml_dtypes==0.6.0 meson-python==0.22.1
    pyproject-metadata==0.12.1"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
packages=$dir/packages-$(echo "$torch $transformers $checks" | cksum | cut -d' ' -f1)

if [ ! -e "$packages/complete" ]; then
    rm -rf "$packages"
    # --no-deps: all that they load is named here. Words are split on purpose.
    # shellcheck disable=SC2086
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$packages" \
        $torch $transformers $checks >&2
    touch "$packages/complete"
fi
echo "$packages"
