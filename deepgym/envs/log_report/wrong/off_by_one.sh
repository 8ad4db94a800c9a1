export LC_ALL=C
# The first line of the log is taken for a header.
tail -n +2 access.log | awk '{ n[$4]++ } END { for (s in n) print s, n[s] }' | sort -n
tail -n +2 access.log | awk '{ t += $5 } END { printf "bytes %.0f\n", t }'
tail -n +2 access.log | cut -d ' ' -f 3 | sort | uniq -c | sort -k1,1nr -k2,2 | awk 'NR == 1 { print "top", $2, $1 }'
