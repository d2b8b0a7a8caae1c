#!/bin/sh
# Installs Weft from this directory, or removes an installation. A list of the installed files makes removal exact.
set -eu

usage() {
    cat <<'END'
usage: install.sh [--prefix DIR] [--uninstall]

  --prefix DIR   where to install [default: /usr/local as root, ~/.local otherwise]
  --uninstall    remove what an earlier install.sh put there

A copy stays in PREFIX/lib/weft/install.sh: it removes its own installation with --uninstall.
END
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
prefix= uninstall=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) [ $# -ge 2 ] || fail "--prefix needs a directory"; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) uninstall=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown option $1" ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    if [ -n "$uninstall" ] && [ -e "$here/installed-files" ]; then
        prefix=$(cd "$here/../.." && pwd)
    elif [ "$(id -u)" = 0 ]; then
        prefix=/usr/local
    else
        prefix=${HOME:?HOME is not set: name a directory with --prefix}/.local
    fi
fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
list=$prefix/lib/weft/installed-files

# Removes the listed files, then the listed directories that are empty. The list names directories after their files.
remove() {
    copy=$(mktemp)
    cp "$list" "$copy"
    while IFS= read -r entry; do
        case $entry in
        "") ;;
        */) rmdir "$prefix/$entry" 2>/dev/null || true ;;
        *) rm -f "$prefix/$entry" ;;
        esac
    done <"$copy"
    rm -f "$copy"
}

if [ -n "$uninstall" ]; then
    [ -e "$list" ] || fail "$prefix has no Weft that install.sh installed ($list is missing); name its directory with --prefix"
    remove
    echo "Weft is removed from $prefix."
    exit 0
fi

[ -x "$here/bin/weft" ] || fail "$here/bin/weft is missing: run install.sh from the unpacked archive"
[ "$(uname -m)" = "@ARCH@" ] || fail "this archive is for @ARCH@, and this machine is $(uname -m)"
"$here/bin/weft" --version >/dev/null || fail "$here/bin/weft does not run here: Weft needs glibc @GLIBC@ or newer"
[ ! -e "$list" ] || remove

# Directories that this installation makes are on the list, so that removal takes them, too.
newline='
'
made=
[ -d "$prefix" ] || made=/
make_directory() {
    case $1 in . | "") return 0 ;; esac
    [ ! -d "$prefix/$1" ] || return 0
    make_directory "$(dirname "$1")"
    mkdir "$prefix/$1"
    made="$1/$newline$made"
}

mkdir -p "$prefix" || fail "cannot write to $prefix; choose another directory with --prefix"
make_directory lib/weft
: >"$list" || fail "cannot write to $prefix/lib/weft; choose another directory with --prefix"
(cd "$here" && find bin lib share -type f) | LC_ALL=C sort >"$list.new"
while IFS= read -r file; do
    # Units are of use to the whole machine only.
    case $file in lib/systemd/*) [ "$(id -u)" = 0 ] || continue ;; esac
    make_directory "$(dirname "$file")"
    echo "$file" >>"$list"
    cp "$here/$file" "$prefix/$file.new"
    case $file in
    lib/systemd/*) sed "s|/usr/bin/weft|$prefix/bin/weft|g" "$here/$file" >"$prefix/$file.new" ;;
    esac
    mv -f "$prefix/$file.new" "$prefix/$file"
done <"$list.new"
rm -f "$list.new"
cp "$here/install.sh" "$prefix/lib/weft/install.sh"
{
    echo lib/weft/install.sh
    echo lib/weft/installed-files
    echo "$made"
} >>"$list"

echo "Weft is installed in $prefix. Try: weft demo"
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "Your PATH lacks $prefix/bin: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "To remove it: $prefix/lib/weft/install.sh --uninstall"
