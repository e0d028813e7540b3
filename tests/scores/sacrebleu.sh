#!/usr/bin/env bash
# Compares attn's scores of translations with sacreBLEU's, in a Python environment made for it
# (network).
#
#     tests/scores/sacrebleu.sh BUILD [--seed N] [--cases N]
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(realpath "${1:?which build?}")
shift
venv=$build/scores-venv
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -c 'import sacrebleu' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet sacrebleu==2.6.0
fi
exec "$venv/bin/python" tests/scores/scores.py "$build" "$@"
