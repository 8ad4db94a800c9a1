import sys

width, *words = sys.stdin.read().split()
width = int(width)
lines, line, length = [], [], 1
for word in words:
    if line and length + len(line) + len(word) > width:
        lines.append(line)
        line, length = [], 0
    line.append(word)
    length += len(word)
for row in lines:
    gaps = len(row) - 1
    if gaps == 0:
        print(row[0])
        continue
    share, extra = divmod(width - sum(map(len, row)), gaps)
    text = row[0]
    for i, word in enumerate(row[1:]):
        text += " " * (share + (i < extra)) + word
    print(text)
print(" ".join(line))
