#!/usr/bin/env bash
# The demo: translates sentences that the bundled model has never seen, shows them beside what people wrote,
# draws what each word of one looked at, and, at a terminal, takes a sentence of yours.
#
#     scripts/demo.sh [PROGRAM [MODEL [HEADS]]]
#
# Writes demo.png and demo.html into the current folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
attn=${1:-$root/build/attn}
model=${2:-$root/models/en-de}
drawn=12      # the sentence whose attention is shown: German moves the verbs to the end
heads=${3:-2} # those of the layer that finds the words best (scripts/alignment.py)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bold='' faint='' plain=''
if [[ -t 1 && ${TERM:-dumb} != dumb && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' faint=$'\e[2m' plain=$'\e[0m'
fi

echo "${bold}Sentences that the model has not seen${plain}"
echo "English from the help of LibreOffice; ${bold}what the model says${plain}; ${faint}what its translators wrote.${plain}"
echo
"$attn" translate -m "$model" "$model/demo.en" -o "$work/out" --show demo.html --line "$drawn" -q
paste -d '\n' "$model/demo.en" "$work/out" "$model/demo.de" | while read -r en && read -r de && read -r ref; do
    printf '  %s\n  %s%s%s\n  %s%s%s\n\n' "$en" "$bold" "$de" "$plain" "$faint" "$ref" "$plain"
done
echo "models/README.md has the scores of all held-out sentences: BLEU of a dozen would say little."

echo
echo "${bold}What each word looked at${plain}"
echo "A row for each word said: how much the model looked at each word meanwhile. German puts the verb"
echo "last: see \"ausgeführt\" look back at \"execute\"."
echo
sed -n "${drawn}s/^/  /p" "$model/demo.en"
echo
sed -n "${drawn}p" "$model/demo.en" | "$attn" translate -m "$model" --show - --heads "$heads" -q
"$attn" translate -m "$model" "$model/demo.en" -o "$work/out" --show demo.png --mean --line "$drawn" --heads "$heads" -q
echo
echo "The same as a picture: demo.png. Every head of the model, and the mean of all of them, which is paler:"
echo "demo.html, in a browser."

if [[ -t 0 && -t 1 ]]; then
    echo
    echo "${bold}An English sentence of yours${plain}, such as the help of an office suite might have:"
    read -r -p "\"Click the button to save the document.\" (Enter: none): " sentence || sentence=
    [[ -n $sentence ]] && "$attn" translate -m "$model" --show - --heads "$heads" -q <<<"$sentence"
fi

echo
echo "${bold}Next${plain}"
echo "  build/attn translate -m models/en-de             more sentences; Ctrl-D ends"
echo "  build/attn translate -m models/en-de --help      beams, scores, alignments, pictures"
echo "  build/attn generate -m models/en 'To insert a'   goes on with a text, and means nothing by it"
echo "  models/README.md           what the model is, how it was made, what it cannot do"
echo "  docs/translation.md        the manual"
