"""One reader per data set, each for the files as their publisher lays them out."""
