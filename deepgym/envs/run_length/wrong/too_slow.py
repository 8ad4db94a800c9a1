def run_length(text):
    runs = []
    for i in range(len(text)):
        start = i
        while start > 0 and text[start - 1] == text[i]:
            start -= 1
        if start == i:
            runs.append([text[i], 1])
        else:
            runs[-1][1] = i - start + 1
    return runs
