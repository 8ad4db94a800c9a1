echo "txt 2"
echo "none 1"
