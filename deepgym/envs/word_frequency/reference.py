import re
import sys
from collections import Counter

top, _, text = sys.stdin.read().partition("\n")
counts = Counter(re.findall("[a-z]+", re.sub("[A-Z]", lambda letter: letter.group().lower(), text)))
for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[: int(top)]:
    print(word, count)
