# What `make demo` runs, with a toy for a model: into a file, and at a terminal, where a sentence is typed.
. "${BASH_SOURCE%/*}/lib.sh"
toy=$here/../toy
mkdir model && cp "$toy/translate.safetensors" model/model.safetensors && cp "$toy/tokenizer.json" model
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "the red cat saw the bird." >>model/demo.en
    echo "die rote Katze hat den Vogel gesehen." >>model/demo.de
done
echo "--- into a file"
bash "$here/../../scripts/demo.sh" "$(command -v attn)" model 1 >out.txt 2>err.txt
echo "exit $?"
cat err.txt
sed 's/[.:=+*#%@-]\{4,\}/CELLS/; s/[0-9.]\+ %/N %/g; s/\(weight 0\).*/\1/' out.txt
head -c 4 demo.png | tail -c 3
echo
grep -c 'die rote Katze' demo.html
ls demo.*
command -v script >/dev/null || exit 0
echo "--- at a terminal"
rm demo.*
printf 'the old dog saw the fish.\n' |
    TERM=xterm-256color script -qec "bash '$here/../../scripts/demo.sh' '$(command -v attn)' model 1" /dev/null |
    tr -d '\r' | perl -pe 's/\e\[[0-9;]*m//g' >out.txt
grep -A 1 'sentence of yours' out.txt | grep -o 'der alte Hund hat den Fisch gesehen'
grep -c 'build/attn translate' out.txt
ls demo.*
exit 0
