# The help texts themselves: a change of an option shows here.
. "${BASH_SOURCE%/*}/lib.sh"
attn --help
for command in run show vocab tokenize info bench train export; do
    echo
    attn $command --help
done
attn run --help >a.txt
attn help run >b.txt && cmp a.txt b.txt && echo "attn help run is attn run --help"
attn --version | sed 's/[0-9][0-9.]*/N/'
