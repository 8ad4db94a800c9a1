def edit_distance(first, second):
    return abs(len(first) - len(second))
