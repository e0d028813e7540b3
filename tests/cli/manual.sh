# The commands of docs/cli.md: each ```sh block runs without failing, and where a ```text block follows,
# prints exactly that.
. "${BASH_SOURCE%/*}/lib.sh"
array Q.npy f4 "3, 2" 1 0 0 1 1 1
array K.npy f4 "4, 2" 1 0 0 1 1 1 0 0
array V.npy f4 "4, 1" 1 2 4 8
awk '/^```/ { if (kind) { kind = ""; close(file) } else { kind = substr($0, 4); if (kind == "sh") n++
        file = sprintf("block%02d.%s", n, kind); printf "" >file }; next }
    kind { print >file }' "$here/../../docs/cli.md"
for block in block*.sh; do
    bash -e "$block" >"$block.out" 2>"$block.err" || { echo "$block failed:"; cat "$block" "$block.err"; }
    text=${block%.sh}.text
    [[ -e $text ]] || continue
    # times and kernels are the machine's own
    grep -v -E '^(kernel|threads|time) ' "$block.out" | diff "$text" - && echo "$block prints what it should"
done
echo "$(ls block*.sh | wc -l) blocks"
