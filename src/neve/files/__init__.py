"""Single Parquet files, read and written with pyarrow or byte by byte; no JVM."""
