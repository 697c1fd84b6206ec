//! What a packet does to its phase: the decision table of.
