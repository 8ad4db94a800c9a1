def bracket_error(text):
    partner = {")": "(", "]": "[", "}": "{"}
    for end in range(1, len(text) + 1):
        stack = []
        for i in range(end):
            c = text[i]
            if c in "([{":
                stack.append(i)
            elif c in partner:
                if not stack or text[stack[-1]] != partner[c]:
                    return i
                stack.pop()
        if end == len(text) and stack:
            return stack[-1]
    return -1
