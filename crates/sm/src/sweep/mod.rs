//! Sweeps: discovery by directed routes, assignment of LIDs, configuration of ports, forwarding tables.
