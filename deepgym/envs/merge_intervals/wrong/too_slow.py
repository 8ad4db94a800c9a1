def merge_intervals(intervals):
    left = [list(interval) for interval in intervals]
    changed = True
    while changed:
        changed = False
        for i in range(len(left)):
            for j in range(len(left)):
                if i != j and left[i][0] <= left[j][1] and left[j][0] <= left[i][1]:
                    left[i] = [min(left[i][0], left[j][0]), max(left[i][1], left[j][1])]
                    del left[j]
                    changed = True
                    break
            if changed:
                break
    return sorted(left)
