#!/bin/sh
# Files compiled for AVX-512 link beside others: an inline function of theirs that another file has
# too could be taken for both, and crash on processors without AVX-512. So what they define must
# carry "avx512" in its name.
#   avx512_symbols.sh OBJECT...
[ $# -gt 0 ] || { echo "no objects were given"; exit 1; }
shared=$(nm -C --defined-only "$@" | grep -E '^[0-9a-f]+ [A-Zuvw] ' | grep -v avx512)
[ -z "$shared" ] || { echo "defined for AVX-512 under a name that others may share:"; echo "$shared"; exit 1; }
