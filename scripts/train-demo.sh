#!/usr/bin/env bash
# Makes the model of models/en-de or models/en anew: corpus, tokenizer, training, export, scores.
#
#     scripts/train-demo.sh [mpl|all|en] [FOLDER]     (default: mpl, in build-demo/mpl)
#
# mpl is the bundled model; all learns from every source of scripts/corpus, and its weights are not
# shipped (models/README.md); en is the bundled model that goes on with English. Stopped by Ctrl-C or
# a power failure, it goes on where it was when it is run again. ATTN_THREADS sets the threads (default:
# all); they change no bit of the result, but another kernel set than AVX2 does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
which=${1:-mpl}
folder=${2:-build-demo/$which}
threads=${ATTN_THREADS:-0}

# The configuration. Width, layers and the rest are alike; what learns from more text gets a larger
# vocabulary, more steps and less dropout.
corpus=$which
options=(--d 256 --ff 1024 --heads 4 --layers 3 --warmup 400 --batch 2048 --average 0.998 --smoothing 0.1)
texts=(--source corpus/train.en --target corpus/train.de --valid-source corpus/valid.en --valid-target corpus/valid.de)
words=(corpus/train.en corpus/train.de)
case $which in
mpl)
    vocabulary=6000
    options+=(--dropout 0.2 --rate 0.0014 --steps 2700)
    ;;
all)
    vocabulary=8000
    options+=(--dropout 0.1 --rate 0.0014 --steps 7200)    # about 26 million tokens
    ;;
en)
    corpus=mpl
    vocabulary=4000
    texts=(--target corpus/train.en --valid-target corpus/valid.en)
    words=(corpus/train.en)
    options=(--d 160 --heads 5 --layers 4 --warmup 200 --batch 2048 --average 0.995 --smoothing 0
             --dropout 0.1 --rate 0.002 --steps 2000)
    ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

scripts/deps.sh build corpus
attn=${ATTN:-build/attn}
[[ -x $attn ]] || scripts/build.sh release
attn=$(realpath "$attn")
[[ -e $folder/corpus/LICENCES ]] || scripts/corpus/corpus.sh "$corpus" "$folder/corpus"

# The checkpoints name the files as they are named here.
cd "$folder"
[[ -e tokenizer.json ]] ||
    "$attn" vocab "${words[@]}" -o tokenizer.json --size "$vocabulary" --special '<s>,</s>'
if compgen -G 'run/step-*' >/dev/null; then
    "$attn" train -o run --resume --threads "$threads" --steps "${options[-1]}" --save-every 150
else
    "$attn" train -o run "${texts[@]}" --tokenizer tokenizer.json "${options[@]}" \
        --threads "$threads" --save-every 150
fi
"$attn" export run -o model --type f16
sha256sum model/model.safetensors

[[ $which == en ]] && exit
# The outputs stay beside the corpus.
translate()
{
    local name=$1
    shift
    "$attn" translate -m model --threads "$threads" "$@" <corpus/test.en >"test.$name"
    echo "$name:"
    "$attn" score "test.$name" corpus/test.de
}
translate greedy --beam 1
translate beam --beam 4
translate power --beam 4 --length-penalty power
