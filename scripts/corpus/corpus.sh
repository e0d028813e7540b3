#!/usr/bin/env bash
# Builds a corpus of English and German lines from Debian packages.
#
#     scripts/corpus/corpus.sh mpl|all OUT
#
# Nothing is installed: packages are downloaded and unpacked in build-corpus/ (ATTN_CORPUS_CACHE
# names another folder), with the lists of apt in a folder of their own: no root is needed. What
# comes out, and the recipe, is told in scripts/corpus/README.md. Wants apt-get, dpkg-deb, python3.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 2 && ($1 == mpl || $1 == all) ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
which=$1 out=$2
cache=$(realpath -m "${ATTN_CORPUS_CACHE:-$here/../../build-corpus}")
for tool in apt-get dpkg-deb python3 sha256sum; do
    command -v "$tool" >/dev/null && continue
    echo "corpus.sh: $tool is missing; scripts/deps.sh corpus installs what can be" >&2
    exit 1
done

packages=(libreoffice-help-en-us libreoffice-help-de libreoffice-l10n-de)
# Programs whose messages are translated. Only what is named here, not what happens to be installed.
programs=(apt bash binutils-common coreutils diffutils dpkg findutils gettext git gnucash-common
    gnupg-l10n grep krita-l10n libc-l10n libglib2.0-data libgtk-3-common make man-db postgresql-15
    postgresql-client-15 sed systemd tar)
[[ $which == mpl ]] || packages+=(trans-de-en "${programs[@]}")

# apt with its state in the cache, and with translated descriptions, which images often switch off.
mkdir -p "$cache"/apt/{parts,lists/partial,archives/partial} "$cache"/{deb,root}
cat >"$cache/apt/config" <<END
Dir::Etc::main "-";
Dir::Etc::parts "$cache/apt/parts";
Dir::State::Lists "$cache/apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$cache/apt";
Acquire::Languages { "en"; "de"; };
APT::Sandbox::User "root";
END
export APT_CONFIG=$cache/apt/config LC_ALL=C.UTF-8
say() { echo "corpus.sh: $*" >&2; }

if ! compgen -G "$cache/apt/lists/*Translation-de*" >/dev/null; then
    say "reading the lists of packages"
    apt-get -qq update 2>"$cache/apt/update.log" || { cat "$cache/apt/update.log" >&2; exit 1; }
fi
for package in "${packages[@]}"; do
    compgen -G "$cache/deb/${package}_*.deb" >/dev/null && continue
    say "downloading $package"
    (cd "$cache/deb" && apt-get -qq download "$package")
done

# Unpacked anew each time, so that nothing of another set is left.
root=$cache/root/$which
rm -rf "$root" && mkdir -p "$root"
for package in "${packages[@]}"; do
    deb=$(compgen -G "$cache/deb/${package}_*.deb" | head -n 1)
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --wildcards --no-anchored \
        'usr/share/libreoffice/help/*.html' '*/de/LC_MESSAGES/*.mo' 'usr/share/trans/*' \
        "usr/share/doc/$package/copyright" 2>/dev/null || true    # no package has them all
    [[ -e $root/usr/share/doc/$package/copyright ]] || say "$package has no copyright file"
    printf '%s\t%s\t%s\n' "$package" "$(dpkg-deb -f "$deb" Version)" \
        "$(sha256sum "$deb" | cut -d' ' -f1)" >>"$root/packages"
done
if [[ $which == all ]]; then
    for language in en de; do
        compgen -G "$cache/apt/lists/*_Translation-$language*" >/dev/null ||
            { say "no Translation-$language in apt's lists"; exit 1; }
        cat "$cache"/apt/lists/*_Translation-$language* >"$root/Translation-$language"
    done
    apt-cache dumpavail >"$root/available" 2>/dev/null
fi

python3 "$here/build.py" "$which" "$root" "$out"
