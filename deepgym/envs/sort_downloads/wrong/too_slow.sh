export LC_ALL=C
cd downloads
shopt -s dotglob nullglob
for name in *; do
    [ -f "$name" ] || continue
    for other in *; do
        # A process for each pair of files.
        lower=$(printf '%s' "$other" | tr A-Z a-z | sed 's/.*\.//')
        lower=$(printf '%s' "$lower" | tr -d ' ' | sed 's/x/x/')
    done
    folder=none
    case "$name" in
        ?*.*) folder=${name##*.}; folder=${folder,,} ;;
    esac
    mkdir -p "./$folder"
    mv -- "$name" "./$folder/"
done
for folder in */; do
    files=("$folder"*)
    echo "${folder%/} ${#files[@]}"
done | sort
