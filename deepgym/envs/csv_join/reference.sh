export LC_ALL=C
echo "name,city,orders,total" > totals.csv
awk -F, -v OFS=, '
    FNR == 1 { file++; next }
    file == 1 { name[$1 ""] = $2; city[$1 ""] = $3; next }
    !(($2 "") in name) { ignored++; next }
    { count[$2 ""]++; total[$2 ""] += $3 }
    END {
        for (id in count) print name[id], city[id], count[id], total[id] > "unsorted"
        print ignored + 0
    }
' customers.csv orders.csv
if [ -f unsorted ]; then
    sort -t, -k4,4nr -k1,1 unsorted >> totals.csv
fi
