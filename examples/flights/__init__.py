"""All flights that left New York in 2013: who was late, by airline and by airport."""
