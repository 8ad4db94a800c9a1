export LC_ALL=C
find tree -type f | sort > files
while read -r first; do
    line=$first
    earlier=no
    while read -r second; do
        if [ "$first" != "$second" ] && cmp -s "$first" "$second"; then
            if [[ "$second" < "$first" ]]; then earlier=yes; fi
            line="$line|$second"
        fi
    done < files
    [ $earlier = no ] && [ "$line" != "$first" ] && echo "$line"
done < files
true
