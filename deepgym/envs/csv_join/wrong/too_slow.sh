export LC_ALL=C
ignored=0
while IFS=, read -r order customer amount; do
    grep -q "^$customer," customers.csv || ignored=$((ignored + 1))
done < <(tail -n +2 orders.csv)
while IFS=, read -r id name city; do
    count=$(grep -c ",$id," orders.csv)
    total=$(grep ",$id," orders.csv | cut -d, -f 3 | awk '{ t += $1 } END { print t + 0 }')
    [ "$count" -gt 0 ] && echo "$name,$city,$count,$total"
done < <(tail -n +2 customers.csv) | sort -t, -k4,4nr -k1,1 > rows
echo "name,city,orders,total" | cat - rows > totals.csv
echo "$ignored"
