//! Multicast: the trees along which groups are sent, and the tables that follow from them.
