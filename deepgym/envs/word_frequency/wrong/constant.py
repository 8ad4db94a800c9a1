print("the 3")
print("and 2")
