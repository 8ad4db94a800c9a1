export LC_ALL=C
cd downloads
for name in $(ls -A); do
    folder=$(echo ${name##*.} | tr A-Z a-z)
    mkdir -p $folder
    mv $name $folder/ 2> /dev/null
done
for folder in */; do
    echo "${folder%/} $(ls -A $folder | wc -l)"
done
