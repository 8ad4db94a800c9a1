import re
import sys

top, _, text = sys.stdin.read().partition("\n")
words = re.findall("[a-z]+", text.lower())
ranked = []
for word in words:
    if word not in [known for known, _ in ranked]:
        ranked.append((word, sum(1 for other in words if other == word)))
ranked.sort(key=lambda pair: (-pair[1], pair[0]))
for word, count in ranked[: int(top)]:
    print(word, count)
