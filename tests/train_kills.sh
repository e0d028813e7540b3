#!/usr/bin/env bash
# Kills a training run at random times and resumes it: the final weights and moments are those of a
# run that was left alone, byte for byte.
#
#     tests/train_kills.sh PROGRAM [KILLS] [SEED]       (default: 20 kills)
#
# Ends with the line `N passed, N failed, N skipped`.
set -uo pipefail

program=$(realpath -- "${1:?which program?}")
kills=${2:-20}
RANDOM=${3:-1}
echo "seed ${3:-1}"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

run=(--task sort --symbols 9 --longest 6 --examples 2000 --held-out 50 --d 32 --heads 2 --layers 1
    --dropout 0.1 --average 0.9 --batch 256 --evaluate-every 50 --steps 400 --save-every 3 -q)

sums() {
    cat "$1"/step-000000000400/{weights,adam_m,adam_v,average}.safetensors | sha256sum
}

SECONDS=0
"$program" train -o alone "${run[@]}" >alone.txt || exit 1
span=$((SECONDS * 1000 + 500))
done=0
for ((i = 0; i < kills; i++)); do
    resume=
    compgen -G "killed/step-*/manifest.safetensors" >/dev/null && resume=--resume
        "$program" train -o killed "${run[@]}" ${resume:+"$resume"} >killed.txt 2>killed.err &
    pid=$!
    sleep "$(printf '0.%03d' $((RANDOM % (2 * span / (kills + 1) + 20) % 1000)))"
    kill -9 $pid 2>/dev/null && done=$((done + 1))
    wait $pid 2>/dev/null
done
"$program" train -o killed "${run[@]}" --resume >/dev/null
echo "$done kills found it running"
if [[ -n $(sums alone) && $(sums alone) == "$(sums killed)" ]]; then
    echo "$kills passed, 0 failed, 0 skipped"
else
    echo "0 passed, $kills failed, 0 skipped"
    exit 1
fi
