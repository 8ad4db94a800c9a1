def merge_intervals(intervals):
    return []
