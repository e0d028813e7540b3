#!/usr/bin/env bash
# Compares attn's tokenizers with Hugging Face's, in a Python environment made for it (network).
#
#     tests/tokenizers/compare.sh BUILD [--seed N] [--cases N]
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(realpath "${1:?which build?}")
shift
venv=$build/tokenizers-venv
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -c 'import tokenizers' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet tokenizers==0.23.3
fi
exec "$venv/bin/python" tests/tokenizers/differential.py "$build" "$@"
