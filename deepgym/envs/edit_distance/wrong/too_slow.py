def edit_distance(first, second):
    if not first or not second:
        return len(first) + len(second)
    if first[-1] == second[-1]:
        return edit_distance(first[:-1], second[:-1])
    return 1 + min(
        edit_distance(first[:-1], second),
        edit_distance(first, second[:-1]),
        edit_distance(first[:-1], second[:-1]),
    )
