"""Pure planners: specs and facts in, decisions with reasons out."""
