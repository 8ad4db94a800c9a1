import sys

width, *words = sys.stdin.read().split()
width = int(width)


def fill(count):
    """Lines of the first `count` words, filled from the start again."""
    lines, line = [], []
    for word in words[:count]:
        if line and len(" ".join([*line, word])) > width:
            lines.append(line)
            line = []
        line.append(word)
    return [*lines, line]


rows = []
for count in range(1, len(words) + 1):
    rows = fill(count)
for row in rows[:-1]:
    gaps = len(row) - 1
    if gaps == 0:
        print(row[0])
        continue
    share, extra = divmod(width - sum(map(len, row)), gaps)
    text = row[0]
    for i, word in enumerate(row[1:]):
        text += " " * (share + (i < extra)) + word
    print(text)
print(" ".join(rows[-1]))
