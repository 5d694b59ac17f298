"""The worker: what is due is found by facts, claimed in the state store, done, and written down."""
