"""Reading what changed: `reading` makes frames, `staged` alone touches the classes that let Spark read chosen files."""
