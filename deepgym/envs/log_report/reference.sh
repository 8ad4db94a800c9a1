export LC_ALL=C
awk '{ n[$4]++ } END { for (s in n) print s, n[s] }' access.log | sort -n
awk '{ t += $5 } END { printf "bytes %.0f\n", t }' access.log
cut -d ' ' -f 3 access.log | sort | uniq -c | sort -k1,1nr -k2,2 | awk 'NR == 1 { print "top", $2, $1 }'
