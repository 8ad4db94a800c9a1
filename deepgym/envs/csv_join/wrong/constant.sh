echo "name,city,orders,total" > totals.csv
echo 1
