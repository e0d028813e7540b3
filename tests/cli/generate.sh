# attn generate with the toy of tests/toy: greedy, drawn, streams, pictures, and mistakes.
. "${BASH_SOURCE%/*}/lib.sh"
toy=$here/../toy
cp "$toy"/*.safetensors "$toy/tokenizer.json" .
model="-m generate.safetensors"
echo "--- greedy"
attn generate $model
attn generate $model 'the dog saw' 'the old tree'
attn generate $model 'the dog saw' --no-prompt --max-length 2
echo "--- drawn"
attn generate $model 'the' --samples 5 --seed 3 | tee drawn.txt
attn generate $model 'the' --samples 5 --seed 3 --threads 2 | cmp - drawn.txt && echo "same again"
attn generate $model 'the' --samples 50 --seed 4 | sort | uniq | wc -l | awk '{ print ($1 > 20) }'
attn generate $model 'the' --samples 9 --top-k 1 | sort | uniq | wc -l
attn generate $model 'the' --samples 9 --temperature 0.001 | sort | uniq | wc -l
attn generate $model 'the' --samples 20 --top-p 0.3 | sort | uniq | wc -l | awk '{ print ($1 < 10) }'
attn generate $model 'the' --seed 3 | cmp - <(head -n 1 drawn.txt) && echo "the first alone"
echo "--- JSON"
attn generate $model 'the dog' --json | sed -E 's/(-?[0-9]\.[0-9])[0-9]+/\1/g'
attn generate $model 'the' --json --samples 2 --max-length 1 | grep -o '"sample": .*"text": "[^"]*"\|"cut": true'
echo "--- pictures"
attn generate $model 'the old' --show - | head -n 4
attn generate $model 'the old' --show map.svg --heads 0.0 --by piece >/dev/null && grep -c 'start' map.svg
echo "--- whole characters, and bytes of any kind"
attn generate $model "$(printf 'K\xc3\xa4se \xff')" --max-length 5 | iconv -f utf-8 -t utf-8 >/dev/null && echo "UTF-8"
echo "--- mistakes"
try attn generate
try attn generate -m none x
try attn generate -m translate.safetensors x
try attn generate $model x --temperature 0
try attn generate $model x --show - --json
try attn generate $model x --heads 1.0
attn generate $model x >/dev/full
echo "exit $?"
exit 0
