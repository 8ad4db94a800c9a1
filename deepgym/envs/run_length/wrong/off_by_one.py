def run_length(text):
    runs, start = [], 0
    for i in range(1, len(text)):
        if text[i] != text[i - 1]:
            runs.append([text[start], i - start])
            start = i
    return runs  # the last run is missing
