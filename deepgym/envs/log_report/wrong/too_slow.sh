export LC_ALL=C
while read -r client method path status bytes; do
    for try in 1 2 3 4 5; do
        count=$(grep -c " $status [0-9]*$" access.log)
    done
    echo "$status $count"
done < access.log | sort -u
total=0
while read -r client method path status bytes; do
    total=$(expr "$total" + "$bytes")
done < access.log
echo "bytes $total"
cut -d ' ' -f 3 access.log | sort | uniq -c | sort -k1,1nr -k2,2 | awk 'NR == 1 { print "top", $2, $1 }'
