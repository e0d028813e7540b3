# attn vocab and attn tokenize: training, ids, pieces, texts, and mistakes.
. "${BASH_SOURCE%/*}/lib.sh"
printf 'the cat sat on the mat\nthe hat on that cat\n\xe6\xbc\xa2\xe5\xad\x97 the \xf0\x9f\x98\x80 hat\n' >text.txt
echo "--- vocabularies"
attn vocab text.txt -o t.json --size 270 --special '<s>,</s>' | grep -v '^time'
attn vocab text.txt text.txt -o words.json --kind words --size 275 --min-count 2 --quiet
attn vocab text.txt -o small.json --size 5000 --json | sed 's/"seconds": [0-9.]*/"seconds": N/'
attn vocab - -o same.json --size 270 --special '<s>,</s>' --quiet <text.txt && cmp t.json same.json && echo "same file"
echo "--- ids and pieces"
attn tokenize t.json text.txt
attn tokenize t.json text.txt --pieces
attn tokenize words.json text.txt --pieces
printf 'the cat\n\nthe' | attn tokenize t.json
printf 'the cat\n\nthe' | attn tokenize t.json --whole --json
echo 'a<s>b' | attn tokenize t.json --pieces
echo 'a<s>b' | attn tokenize t.json --pieces --special
echo "--- and back"
attn tokenize t.json text.txt >ids.txt
attn tokenize t.json ids.txt --decode | cmp - text.txt && echo "same text"
attn tokenize words.json text.txt | attn tokenize words.json --decode | cmp - text.txt && echo "same text"
head -c 1000 /dev/urandom | tr '\n' ' ' >noise.bin
attn tokenize t.json --whole noise.bin | attn tokenize t.json --decode | head -c 1000 | cmp - noise.bin && echo "same bytes"
echo '0, 70 1' | attn tokenize t.json --decode --json
echo '0 70 1' | attn tokenize t.json --decode --skip-special
echo '0 189' | attn tokenize t.json --decode --lossy --skip-special
echo "--- pieces cannot drive a terminal"
printf '{"model":{"type":"BPE","vocab":{"\\u001b[31m":0,"\\u202e":1},"merges":[]},"added_tokens":[{"id":0,"content":"\\u001b[31m"},{"id":1,"content":"\\u202e"}]}' >evil.json
printf '\x1b[31m\xe2\x80\xae\n' | attn tokenize evil.json --pieces
printf '\x1b[31m\xe2\x80\xae\n' | attn tokenize evil.json --json
echo "--- mistakes"
try attn vocab
try attn vocab text.txt
try attn vocab missing.txt -o x.json
try attn vocab text.txt -o x.json --size 100
try attn vocab text.txt -o x.json --special 'a,,b'
try attn vocab text.txt -o x.json --special 'a,a'
try attn vocab text.txt -o x.json --pattern '('
try attn vocab text.txt -o x.json --pattern x --kind words
try attn vocab text.txt -o x.json --characters 4
try attn vocab text.txt -o no/folder/x.json
try attn tokenize
try attn tokenize missing.json
try attn tokenize text.txt
echo '{"model": {"type": "Unigram", "vocab": []}}' >unigram.json
try attn tokenize unigram.json
try attn tokenize t.json missing.txt
try attn tokenize t.json --decode --pieces
try attn tokenize t.json --lossy
echo '1 x' >bad.txt
try attn tokenize t.json bad.txt --decode
echo '1 99999' >bad.txt
try attn tokenize t.json bad.txt --decode
ls x.json 2>/dev/null
exit 0
