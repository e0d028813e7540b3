#!/usr/bin/env bash
# Installs the Debian packages that are missing for the named groups, and nothing if none is.
#
#     scripts/deps.sh [build|test|words|corpus|check|browser|full]...      (default: build)
#
# Needs root or a sudo that asks for no password; otherwise prints the line to run and fails. A thing
# is looked for by what it offers (a command, a pkg-config module, a file), so that on other systems
# what is installed under another name counts too.
set -euo pipefail

# group   Debian package          what shows that it is there
table='
build     gcc                     cmd:cc
build     libc6-dev               file:/usr/include/stdlib.h
build     cmake                   cmd:cmake
build     ninja-build             cmd:ninja
build     pkg-config              cmd:pkg-config
build     libjansson-dev          module:jansson
build     libzip-dev              module:libzip
build     zlib1g-dev              module:zlib
build     libcairo2-dev           module:cairo
build     libpango1.0-dev         module:pangocairo
build     libpng-dev              module:libpng
build     libutf8proc-dev         module:libutf8proc
build     libpcre2-dev            module:libpcre2-8
build     fonts-dejavu-core       file:/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
test      libcmocka-dev           module:cmocka
words     wamerican               file:/usr/share/dict/american-english
words     codespell               cmd:codespell
corpus    python3                 cmd:python3
check     g++                     cmd:g++
check     clang                   cmd:clang
check     libclang-rt-14-dev      file:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
check     clang-format            cmd:clang-format
check     gcc-aarch64-linux-gnu   cmd:aarch64-linux-gnu-gcc
check     libc6-dev-arm64-cross   file:/usr/aarch64-linux-gnu/include/stdlib.h
check     qemu-user               cmd:qemu-aarch64
browser   chromium                cmd:chromium
browser   python3                 cmd:python3
full      valgrind                cmd:valgrind
'

present()
{
    case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    module:*) pkg-config --exists "${1#module:}" 2>/dev/null ;;
    file:*) compgen -G "${1#file:}" >/dev/null ;;
    *) echo "deps.sh: bad probe '$1'" >&2 && exit 2 ;;
    esac
}

groups=" ${*:-build} "
missing=()
while read -r group package probe; do
    if [[ -n $group && $groups == *" $group "* ]] && ! present "$probe"; then
        missing+=("$package")
    fi
done <<<"$table"
[[ ${#missing[@]} -eq 0 ]] && exit 0

install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "Missing here, by their Debian names: ${missing[*]}" >&2
    echo "On Debian or Ubuntu, run as root:" >&2
    echo "$install" >&2
    exit 1
fi
if [[ $(id -u) -eq 0 ]]; then
    as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    echo "Missing packages. Run as root:" >&2
    echo "$install" >&2
    exit 1
fi

echo "Installing (it may take minutes, and asks nothing): ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt()
{
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"$log" 2>&1
}
if ! apt update || ! apt install -y --no-install-recommends "${missing[@]}"; then
    tail -n 20 "$log" >&2
    echo "Installing failed. Run as root:" >&2
    echo "$install" >&2
    exit 1
fi
