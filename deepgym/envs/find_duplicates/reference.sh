export LC_ALL=C
find tree -type f -print0 | sort -z | xargs -0 -r sha256sum -z |
    awk -v RS='\0' '
        { hash = substr($0, 1, 64); path = substr($0, 67)
          if (hash in group) { group[hash] = group[hash] "|" path; many[hash] = 1 } else group[hash] = path }
        END { for (hash in many) print group[hash] }
    ' | sort -t '|' -k1,1
