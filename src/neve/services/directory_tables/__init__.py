"""Directory tables: plain folders of Parquet or CSV files under the same commands as Iceberg tables."""
