print("2 2 3")
