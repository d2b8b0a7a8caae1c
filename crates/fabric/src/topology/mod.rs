//! What a fabric is made of: nodes, ports and cables, before anything runs.
