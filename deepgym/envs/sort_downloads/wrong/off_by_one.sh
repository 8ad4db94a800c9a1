export LC_ALL=C
cd downloads
shopt -s dotglob nullglob
for name in *; do
    [ -f "$name" ] || continue
    folder=none
    case "$name" in
        ?*.*) folder=${name##*.}; folder=${folder,,} ;;
    esac
    mkdir -p "./$folder"
    mv -- "$name" "./$folder/"
done
for folder in */; do
    files=("$folder"* extra)  # one too many
    echo "${folder%/} ${#files[@]}"
done | sort
