# attn train: tasks that are learnt, runs that are killed, stopped and resumed, mistakes.
. "${BASH_SOURCE%/*}/lib.sh"

small="--task copy --symbols 6 --longest 4 --shortest 2 --examples 300 --held-out 20 --d 16 --heads 2
    --layers 1 --batch 128 --evaluate-every 10 --seed 5 -q"

# weights FOLDER: what the newest checkpoint holds, but for its name.
weights() {
    cat "$1"/step-*30/{weights,adam_m,adam_v}.safetensors | sha256sum
}

echo "# a run, again on other threads, again killed and resumed: the same bits"
attn train -o a $small --steps 30 --threads 1 --save-every 7 >a.txt && sed 's/loss.*/.../' a.txt
ls a | sort
attn train -o b $small --steps 30 --threads 2 >/dev/null
cmp <(weights a) <(weights b) && echo "same on two threads"
for kill_at in 4 13 22; do
    attn train -o c $small --steps 30 --save-every 2 ${resume-} >c.txt 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null && ! compgen -G "c/step-*0$(printf %02d $kill_at)" >/dev/null; do
        sleep 0.01
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    resume=--resume
done
attn train -o c --resume --steps 30 >/dev/null 2>&1
cmp <(weights a) <(weights c) && echo "same after being killed"
cut -d, -f1-5 c/log.csv | cmp - <(cut -d, -f1-5 a/log.csv) && echo "same log"

echo "# stopped by a signal: saved, and gone on with"
attn train -o d $small --steps 100000 >d.txt 2>d.err &
pid=$!
until [[ -s d/log.csv ]] && (( $(wc -l <d/log.csv) > 2 )); do sleep 0.01; done
kill -TERM $pid
wait $pid
echo "exit $?"
sed 's/step-[0-9]*/step-N/' d.err
attn train -o d --resume --steps 1 2>&1 | head -n 1 | sed 's/step [0-9]* of/step N of/'

echo "# JSON"
attn train -o e $small --steps 10 --json | tr ',' '\n' | sed 's/: .*//'

echo "# mistakes"
attn train
attn train -o f
attn train -o f --task dance
attn train -o a $small
attn train -o a --resume --d 32
attn train -o f --resume
attn train -o f $small --layers 1,2,3
attn train -o f $small --rate -1
attn train -o f --task recall --symbols 4
attn train -o f --task copy --shortest 9 --longest 3
attn train -o f --task copy --symbols 2 --shortest 1 --longest 1
attn train -o /dev/null $small
attn train -o f $small words.txt
[[ -e f ]] || echo "nothing was made"

echo "# damage: the checkpoint before is taken"
printf x | dd of="$(ls -d a/step-*30)/weights.safetensors" bs=1 seek=500 conv=notrunc status=none
attn train -o a --resume --steps 29 2>&1 | sed -n '1,2p' | cut -c1-120

echo "# text: pairs of lines, and lines alone"
awk 'BEGIN { for (i = 0; i < 300; i++) { a = i * 7 % 90 + 10; b = i * 13 % 80 + 10
    print "the " a " saw " b >"en.txt"; print "die " b " von " a " gesehen" >"de.txt" } print "" >"en.txt"; print "x" >"de.txt" }'
attn vocab en.txt de.txt -o tok.json --size 300 --special '</s>' >/dev/null
text="--target de.txt --tokenizer tok.json --d 16 --heads 2 --layers 1 --batch 512 --steps 40 --evaluate-every 20 -q"
attn train -o t $text --source en.txt --average 0.9 | sed 's/loss.*/.../'
cmp t/tokenizer.json tok.json && ls t | sort
attn info t/model.safetensors | head -n 1 | sed 's/:.*//'
attn train -o t --resume --steps 41 -q | sed 's/loss.*/.../'
head -n 40 en.txt >ven.txt && head -n 40 de.txt >vde.txt
attn train -o w $text --source en.txt --valid-source ven.txt --valid-target vde.txt --threads 1 |
    sed 's/loss.*/.../'
attn train -o w --resume --steps 41 --valid-target de.txt

echo "# export: half the size, the same model, its tokenizer"
attn export t -o small | sed 's/[0-9.]* kB/N kB/'
cmp small/tokenizer.json tok.json && attn export t -o wide --type f32 -q && cmp {t,wide}/model.safetensors
attn export small -o again -q && cmp {small,again}/model.safetensors && echo "again the same"
attn export a -o /dev/null/x
attn export a -o task --type bf16 --json | sed 's/"bytes": [0-9]*/"bytes": N/'
attn export none -o x
attn export t -o t/.
attn export t
attn export -o x
attn export t -o x --type i8
head -c 1000 small/model.safetensors >again/model.safetensors
attn export again -o x 2>&1 | sed 's/[0-9]* bytes/N bytes/'
[[ -e x ]] || echo "nothing was made"

echo "# changed text, and mistakes"
echo "another line" >>de.txt && echo "one more" >>en.txt
attn train -o t --resume --steps 42
attn train -o u $text | head -n 1 | sed 's/loss.*/.../'
echo "more" >>de.txt
attn train -o v $text --source en.txt
attn train -o v $text --source none.txt
attn train -o v --target de.txt
attn train -o v --task copy --source en.txt
attn vocab en.txt -o none.json --size 300 >/dev/null
attn train -o v --target de.txt --tokenizer none.json
attn train -o v $text --max-tokens 2 | head -n 1
attn train -o v $text --valid-source en.txt
attn train -o v $text --valid-target de.txt --held-out 9
attn train -o v $text --source en.txt --valid-target de.txt
attn train -o v $text --source en.txt --valid-target de.txt --valid-source ven.txt
attn train -o v --task copy --valid-target de.txt
[[ -e v ]] || echo "nothing was made"
