export LC_ALL=C
find tree -type f -printf '%s\t%p\n' | sort -t "$(printf '\t')" -k2,2 |
    awk -F '\t' '
        { if ($1 in group) { group[$1] = group[$1] "|" $2; many[$1] = 1 } else group[$1] = $2 }
        END { for (size in many) print group[size] }
    ' | sort -t '|' -k1,1
