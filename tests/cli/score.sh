# attn score: numbers, sentences, JSON, lines that hurt, and mistakes.
. "${BASH_SOURCE%/*}/lib.sh"
printf 'The cat sat on the mat.\nIt costs 1,000.50 euros, no more!\n\nA dog - or two?' >out.txt.1
printf 'The cat sat on a mat.\nIt costs 1,000.50 euros; no more!\n\nA dog, or two?\n' >ref.txt
printf 'On the mat sat the cat.\nThat is 1,000.50 euros!\n\nOne dog - or two?\n' >other.txt
echo "--- scores"
attn score out.txt.1 ref.txt
attn score out.txt.1 ref.txt other.txt --chrf++ -w 4
attn score - ref.txt <out.txt.1
attn score ref.txt ref.txt --json
attn score out.txt.1 ref.txt other.txt --chrf++ --json
echo "--- sentences"
attn score out.txt.1 ref.txt --sentences --chrf++ --digits 2
attn score out.txt.1 ref.txt --sentences --json | sed -n 4p
echo "--- lines that hurt"
printf 'a\rb\xe2\x80\xa8c\0d\n\xff\xe2\x82 x\n' >hard.txt
printf 'a b c\0d\n\xef\xbf\xbd\xef\xbf\xbd x\n' >same.txt
attn score hard.txt same.txt
attn score hard.txt same.txt --json 2>/dev/null
perl -e 'print join(" ", map { "w" . $_ % 1000 } 1 .. 100000), "\n"' >long.txt
attn score long.txt long.txt
echo "--- mistakes"
try attn score
try attn score out.txt.1
try attn score out.txt.1 missing.txt
try attn score - -
try attn score out.txt.1 ref.txt hard.txt
try attn score ref.txt long.txt
try attn score /dev/null /dev/null
try attn score out.txt.1 ref.txt --digits 40
try attn score . ref.txt
attn score out.txt.1 ref.txt >/dev/full
echo "exit $?"
exit 0
