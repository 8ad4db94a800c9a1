print("every line but")
