//! Partitions: partitions.conf, and the P_Keys of every port that follow from it.
