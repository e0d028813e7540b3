# attn translate with the toy of tests/toy: lines, search, scores, alignments, pictures, and mistakes.
. "${BASH_SOURCE%/*}/lib.sh"
toy=$here/../toy
mkdir model && cp "$toy/translate.safetensors" model/model.safetensors && cp "$toy/tokenizer.json" model
digits() { sed -E 's/(-?[0-9]+\.[0-9]{3})[0-9]+/\1/g'; }
printf 'the red cat saw the bird.\n\nthe dog heard the house.\r\n \t \nthe old tree found the child.' >in.txt
echo "--- lines"
attn translate -m model in.txt | tee out.txt
attn translate -m model - <in.txt | cmp - out.txt && echo "same by a pipe"
attn translate -m model in.txt -o whole.txt && cmp whole.txt out.txt && echo "same in a file"
attn translate -m model/model.safetensors in.txt --threads 2 --batch 20 | cmp - out.txt && echo "same in small batches"
tac <(cat in.txt; echo) | attn translate -m model | tac | cmp - out.txt && echo "same in another order"
while read -r line; do echo "$line" | attn translate -m model; done < <(cat in.txt; echo) | cmp - out.txt && echo "same one by one"
for type in f16 bf16 i8; do attn translate -m model in.txt --weights $type | cmp - out.txt && echo "same with $type"; done
echo "--- search"
attn translate -m model in.txt --beam 1
attn translate -m model in.txt --beam 3 --n-best 3 | cut -f 1,3
attn translate -m model in.txt --n-best 2 --length-penalty none | sed -n 1,2p | digits
attn translate -m model in.txt --beam 8 --length-penalty power --alpha 0.5 --end-counted --stop count | head -n 1
attn translate -m model in.txt --prefix 'das alte' | head -n 2
attn translate -m model in.txt --max-length 3
attn translate -m model in.txt --min-length 30 --max-length 40 --no-repeat 4 | awk '{ print (NF > 3) }'
echo "--- scores of given translations"
printf 'die rote Katze hat den Vogel gesehen.\n\ndas Haus hat den Hund gesehen.\nx\nder alte Baum hat das Kind gefunden.\n' >given.txt
attn translate -m model in.txt --score given.txt | sed -E 's/\.([0-9])[0-9]*/.\1/'
attn translate -m model in.txt --length-penalty none --json | sed -n 1p | grep -o '"log_probability": [^,]*' | digits
attn translate -m model in.txt --score given.txt --json | sed -n 1p | grep -o '"log_probability": [^,]*' | digits
echo "--- alignments"
attn translate -m model in.txt --align - | head -n 2
attn translate -m model in.txt --align pairs.txt --align-weights --heads 1.0 -o /dev/null && sed 's/:\(...\)[^ ]*/:\1/g' pairs.txt
attn translate -m model in.txt --align pairs.txt --align-least 0.3 --by piece -o /dev/null && head -n 1 pairs.txt
attn translate -m model in.txt --score given.txt --align - | sed -n '1,2p;4p' | cut -f 2
attn translate -m model in.txt --align - | head -n 1 | cut -f 2
attn translate -m model in.txt --score given.txt --show map.svg --line 3 --heads 0.0 -o /dev/null && grep -c 'das Haus hat den Hund' map.svg
echo "--- JSON"
attn translate -m model in.txt --json --align - | sed -n 2,3p | perl -pe 's/(\d\.\d)\d+/$1/g'
attn translate -m model in.txt --json --n-best 2 | grep -c '"best": \['
echo "--- pictures"
attn translate -m model in.txt --show - --heads 1 | sed -n 1,12p
attn translate -m model in.txt --show map.html -o /dev/null && grep -c 'die rote Katze' map.html
attn translate -m model in.txt --show map.svg --line 3 --mean --dark -o /dev/null && grep -c 'geh' map.svg
attn translate -m model in.txt --show grid.png -o /dev/null && head -c 4 grid.png | tail -c 3
attn translate -m model in.txt --show lines.txt --kind lines --heads 0.1 --by piece -o /dev/null && head -n 3 lines.txt
echo
echo "--- lines that hurt"
printf '\xff\xfe the cat\nthe\0cat saw\n\x1b[31mred\xe2\x80\xa8\xc3\nthe dog saw the fish.\n' >hard.txt
attn translate -m model hard.txt | iconv -f utf-8 -t utf-8 | wc -l
attn translate -m model hard.txt | tail -n 1
perl -e 'print "the red cat saw the bird. " x 400, "\nthe dog saw the fish.\n"' >long.txt
attn tokenize model/tokenizer.json long.txt | head -n 1 | wc -w
attn translate -m model long.txt --max-length 12 --beam 2 | tail -n 1
attn translate -m model /dev/null
echo "--- mistakes"
try attn translate
try attn translate -m none in.txt
mkdir bare && cp model/model.safetensors bare
try attn translate -m bare in.txt
head -c 9000 model/model.safetensors >bare/short.safetensors
try attn translate -m bare/short.safetensors in.txt --tokenizer model/tokenizer.json
attn vocab in.txt -o other.json --size 270 --special '</s>' --quiet
try attn translate -m model in.txt --tokenizer other.json
attn vocab in.txt -o other.json --size 270 --quiet
try attn translate -m model in.txt --tokenizer in.txt
cp "$toy/generate.safetensors" model
try attn translate -m model/generate.safetensors in.txt
try attn translate -m model missing.txt
try attn translate -m model in.txt -o no/folder/x
try attn translate -m model in.txt hard.txt
try attn translate -m model in.txt --n-best 5
try attn translate -m model in.txt --score given.txt --n-best 2
try attn translate -m model in.txt --score hard.txt
try attn translate -m model in.txt --heads 2
try attn translate -m model in.txt --heads 0.7
try attn translate -m model in.txt --show map.gif
try attn translate -m model in.txt --kind grid
try attn translate -m model in.txt --show map.svg --line 9
try attn translate -m model in.txt --show map.svg --line 2
try attn translate -m model in.txt --show - --json
try attn translate -m model in.txt --align-weights
try attn translate -m model in.txt --show no/folder/map.svg
attn translate -m model in.txt >/dev/full
echo "exit $?"
try attn translate -m model in.txt -o /dev/full
ls | tr '\n' ' '
echo
exit 0
