export LC_ALL=C
# The last byte of each file is not looked at.
find tree -type f | sort | while read -r path; do
    echo "$(head -c -1 "$path" | sha256sum | cut -c 1-64) $path"
done | awk '
    { hash = $1; path = substr($0, 66)
      if (hash in group) { group[hash] = group[hash] "|" path; many[hash] = 1 } else group[hash] = path }
    END { for (hash in many) print group[hash] }
' | sort -t '|' -k1,1
