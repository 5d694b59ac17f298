"""The command line: reads words, calls the lake, renders answers. It computes nothing."""
