echo "200 3"
echo "bytes 22"
echo "top /b 2"
