#!/usr/bin/env bash
# Makes the toys of the tests of `attn translate` and `attn generate`, here: sentences of a made-up
# world of 8 nouns, 3 verbs and 3 adjectives, a model that translates them into German, and one that
# says them. The files are the same on every machine with the same kernel set, and nearly so elsewhere.
#
#     tests/toy/make.sh PROGRAM
set -euo pipefail
attn=$(realpath "${1:?which program?}")
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v to="$work" 'BEGIN { srand(7)
    split("cat dog man bird house child fish tree", en)
    split("Katze Hund Mann Vogel Haus Kind Fisch Baum", de)
    split("f m m m n n m m", sex)
    split("saw found heard", verb); split("gesehen gefunden gehört", past)
    split("red old small", kind); split("rote alte kleine", art)
    for (i = 0; i < 2000; i++) {
        a = int(rand() * 8) + 1; b = int(rand() * 8) + 1; v = int(rand() * 3) + 1
        k = int(rand() * 3) + 1; with = rand() < 0.6
        print "the " (with ? kind[k] " " : "") en[a] " " verb[v] " the " en[b] "." >(to "/en")
        print (sex[a] == "f" ? "die" : sex[a] == "m" ? "der" : "das") " " (with ? art[k] " " : "") de[a] \
            " hat " (sex[b] == "f" ? "die" : sex[b] == "m" ? "den" : "das") " " de[b] " " past[v] "." >(to "/de")
    } }'
"$attn" vocab "$work/en" "$work/de" -o tokenizer.json --size 300 --special '</s>,<pad>' --quiet
shape="--tokenizer tokenizer.json --d 12 --heads 2 --ff 24 --batch 1024 --rate 0.02 --warmup 50
    --dropout 0 --evaluate-every 100 -q"
"$attn" train -o "$work/t" --source "$work/en" --target "$work/de" $shape --layers 1,2 --steps 500
"$attn" train -o "$work/g" --target "$work/en" $shape --layers 1 --steps 300 --smoothing 0
for kind in t g; do
    "$attn" export "$work/$kind" -o "$work/$kind.out" -q
done
mv "$work/t.out/model.safetensors" translate.safetensors
mv "$work/g.out/model.safetensors" generate.safetensors
