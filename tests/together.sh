#!/bin/sh
# No object of tests_together defines a global name but that of its test.
# Usage: together.sh NM OBJECT...
set -eu
nm=$1
shift
"$nm" -A -g -P --defined-only "$@" | awk '
    {
        file = $1
        sub(/:$/, "", file)
        sub(/.*\//, "", file)
        sub(/[.].*/, "", file)
        if ($2 != file && $2 !~ /^__/) { # those are of the compiler
            print "test " file " defines " $2 " for all tests: make it static, or name " \
                file " in a .cmake file"
            failed = 1
        }
        seen++
    }
    END { exit failed || !seen }'
