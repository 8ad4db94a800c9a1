echo "tree/a/c|tree/b"
