def bracket_error(text):
    partner = {")": "(", "]": "[", "}": "{"}
    stack = []
    for i, c in enumerate(text):
        if c in "([{":
            stack.append((c, i))
        elif c in partner:
            if not stack or stack[-1][0] != partner[c]:
                return i
            stack.pop()
    return stack[0][1] if stack else -1
